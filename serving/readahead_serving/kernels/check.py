"""Whether a compiled library computes what PyTorch does, on a few small cases: asked each time one is opened."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from readahead_serving.kernels.blocks import Bits, Blocks
from readahead_serving.kernels.library import DTYPES, AttentionArgs, Kernels

_TOLERANCE = {torch.bfloat16: 0.03, torch.float32: 1e-4}


def is_sound(kernels: Kernels) -> bool:
    """Whether every kernel agrees with PyTorch. Takes milliseconds."""
    random = torch.Generator().manual_seed(0)
    return (
        _multiplies(kernels, random)
        and _multiplies_blocks(kernels, random)
        and all(
            _normalizes(kernels, dtype, random)
            and _gates(kernels, dtype, random)
            and _rotates(kernels, dtype, random)
            and _attends(kernels, dtype, random)
            for dtype in sorted(DTYPES, key=str)
        )
    )


def _close(result: Tensor, expected: Tensor) -> bool:
    tolerance = _TOLERANCE[result.dtype]
    return torch.allclose(result.float(), expected.float(), rtol=tolerance, atol=tolerance)


def _multiplies(kernels: Kernels, random: torch.Generator) -> bool:
    weight, bias = torch.randn(96, 64, generator=random).bfloat16(), torch.randn(96, generator=random)
    packed = kernels.pack(weight)
    for rows in (1, 2, 16, 31):
        x = torch.randn(rows, 64, generator=random).bfloat16()
        if not _close(kernels.multiply(x, packed, bias), F.linear(x.float(), weight.float(), bias)):
            return False
    return True


def _multiplies_blocks(kernels: Kernels, random: torch.Generator) -> bool:
    """Weights of few bits, in each form of scales: to the bit what they give rounded to bfloat16."""
    forms: list[tuple[Bits, int, torch.dtype, bool]] = [
        (4, 32, torch.float16, True),
        (4, 32, torch.float32, False),
        (8, 16, torch.float32, False),
        (8, 32, torch.float16, True),
    ]
    x, ids = torch.randn(5, 96, generator=random).bfloat16(), torch.tensor([63, 0, 33])
    for bits, group, dtype, has_minimum in forms:
        least = -128 if bits == 8 else 0 if has_minimum else -8
        numbers = torch.randint(least, least + 2**bits, (64, 96), generator=random).to(torch.int8)
        scales, minimums = (torch.randn(64, 96 // group, generator=random).to(dtype) for _ in range(2))
        weight = Blocks(bits, numbers, scales, minimums if has_minimum else None)
        plain, packed = weight.values().bfloat16(), kernels.pack_blocks(weight)
        out = torch.empty(5, 64, dtype=torch.bfloat16)
        for rows in (1, 5):
            kernels.multiply_blocks(x[:rows], packed, None, out[:rows])
            if not torch.equal(out[:rows], kernels.multiply(x[:rows], kernels.pack(plain), None)):
                return False
        if not torch.equal(kernels.read_block_rows(packed, ids), plain[ids]):
            return False
    return True


def _normalizes(kernels: Kernels, dtype: torch.dtype, random: torch.Generator) -> bool:
    hidden, weight = torch.randn(3, 48, generator=random), torch.randn(48, generator=random)
    delta = torch.randn(3, 48, generator=random).to(dtype)
    total = hidden + delta
    result = kernels.add_and_normalize(hidden, delta, weight, 1e-5, dtype)
    return torch.equal(hidden, total) and _close(result, F.rms_norm(total, (48,), weight, 1e-5))


def _gates(kernels: Kernels, dtype: torch.dtype, random: torch.Generator) -> bool:
    x = (10 * torch.randn(3, 96, generator=random)).to(dtype)
    left, right = x.float().chunk(2, -1)
    return _close(kernels.gate(x), F.silu(left) * right)


def _rotates(kernels: Kernels, dtype: torch.dtype, random: torch.Generator) -> bool:
    x, cos, sin = (torch.randn(3, heads, 32, generator=random).to(dtype) for heads in (5, 1, 1))
    expected = x.float() * cos.float() + x.float().roll(16, -1) * sin.float()
    kernels.rotate(x, cos, sin)
    return _close(x, expected)


def _attends(kernels: Kernels, dtype: torch.dtype, random: torch.Generator) -> bool:
    """Two query heads on one KV head of 32: 70 keys of the cache, the last of them new, whose block is the whole cache,
    and a pack of 70 in bytes."""
    keys, values = (torch.randn(1, 70, 32, generator=random).to(dtype) for _ in range(2))
    numbers = [torch.randint(-127, 128, (1, 70, 32), generator=random, dtype=torch.int8) for _ in range(2)]
    key_scales, value_scales = (torch.rand(1, size, 32, generator=random) / 64 for size in (2, 70))
    query = torch.randn(1, 2, 32, generator=random).to(dtype)
    cached, held = keys.clone(), values.clone()
    cached[:, -1], held[:, -1] = 0, 0
    out, outputs, sums = torch.empty(1, 2, 32, dtype=dtype), torch.empty(2, 2, 32), torch.empty(2, 2, 2)
    value_scales = value_scales[:, :, 0].contiguous()
    bytes_at = [part.data_ptr() for part in (*numbers, key_scales, value_scales)]
    runs = [[0, 70 * 32, 70, 0, 1, 70 * 32, 70, 1], [0, 0], [0, 0, 0, 1, 0, 70, 0, 1, 0, 1, 1, 0, 70, 0]]
    arrays = [[cached.data_ptr(), held.data_ptr(), 0, 0, *bytes_at], [69 * 32], *runs, [0, 70, 0, 0, 70, 1], [0, 2]]
    tensors = [torch.tensor(array) for array in arrays]
    names = ("sources", "written", "groups", "pieces", "items", "readers", "states")
    args = AttentionArgs(**{name: tensor.data_ptr() for name, tensor in zip(names, tensors, strict=True)})
    args.queries, args.new_keys, args.new_values = query.data_ptr(), keys[:, -1].data_ptr(), values[:, -1].data_ptr()
    args.out, args.outputs, args.sums = out.data_ptr(), outputs.data_ptr(), sums.data_ptr()
    args.query_stride, args.key_stride, args.value_stride, args.cache_head_stride = 64, 32, 32, 70 * 32
    args.rows, args.num_items, args.heads, args.kv_heads, args.dim, args.threads = 1, 2, 2, 1, 32, 1
    kernels.attend(dtype, args)
    seen = (
        torch.cat((keys.float(), numbers[0] * key_scales.repeat_interleave(64, 1)[:, :70]), 1),
        torch.cat((values.float(), numbers[1] * value_scales[:, :, None]), 1),
    )
    expected = F.scaled_dot_product_attention(query.float().transpose(0, 1), *seen)
    return torch.equal(cached, keys) and torch.equal(held, values) and _close(out, expected.transpose(0, 1))
