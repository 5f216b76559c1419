"""Attention over the paged cache against plain attention, by PyTorch and by the kernels of every level."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from readahead_serving.engine import attention_work, shared_attention
from readahead_serving.engine.attention import BatchAttention, merge_scattered
from readahead_serving.engine.executor import AttentionFactory
from readahead_serving.engine.kernel_attention import choose_attention
from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.pack_bytes import as_bytes
from readahead_serving.engine.kv.pack_table import AttachedPack, PackReading
from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.kv.storage import KVStorage
from readahead_serving.engine.request import GenerationRequest, SamplingParams
from readahead_serving.engine.scheduler.plan import Chunk
from readahead_serving.engine.sequence import Sequence
from readahead_serving.engine.shared_attention import merge
from readahead_serving.kernels.build import Level
from tests.serving.kernel_levels import kernels_of
from tests.serving.tiny_engine import CONFIG

HEAD_DIM = 16
BLOCK = 8
PATHS: list[Level | None] = [None, "avx2", "avx512"]
"""Whose attention: None is PyTorch's."""


def attention_of(path: Level | None, heads: int, kv_heads: int, head_dim: int = HEAD_DIM) -> AttentionFactory:
    config = dataclasses.replace(CONFIG, num_heads=heads, num_kv_heads=kv_heads, head_dim=head_dim)
    return choose_attention(None if path is None else kernels_of(path), config)


def naive(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(L, heads, D) queries at the end of (S, KV heads, D) keys."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1).transpose(0, 1).double() for x in (k, v))
    scores = q.transpose(0, 1).double() @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    ahead = torch.ones(scores.shape[1:], dtype=torch.bool).triu(k.shape[1] - q.shape[0] + 1)
    out: Tensor = scores.masked_fill(ahead, float("-inf")).softmax(-1) @ v
    return out.transpose(0, 1)


class Cache:
    """A storage whose content is known, and the plain attention over it."""

    def __init__(self, kv_heads: int, group: int, dtype: torch.dtype, blocks: int, path: Level | None = None) -> None:
        self.attention = attention_of(path, kv_heads * group, kv_heads)
        self.dtype, self.heads, self.kv_heads = dtype, kv_heads * group, kv_heads
        self.pool = BlockPool(blocks, BLOCK)
        self.storage = KVStorage(
            num_layers=2, num_kv_heads=kv_heads, head_dim=HEAD_DIM, dtype=dtype, num_blocks=blocks, block_tokens=BLOCK
        )
        self.known: dict[str, tuple[Tensor, Tensor]] = {}

    def sequence(self, name: str, tokens: int) -> Sequence:
        sequence = Sequence(
            GenerationRequest(request_id=name, prompt_tokens=[0] * tokens, sampling=SamplingParams(max_tokens=1))
        )
        assert self.pool.extend(sequence.blocks, tokens)
        shape = (0, self.kv_heads, HEAD_DIM)
        self.known[name] = (torch.empty(shape, dtype=self.dtype), torch.empty(shape, dtype=self.dtype))
        return sequence

    def pack(self, tokens: int, *, in_bytes: bool = False) -> AttachedPack:
        """A pack of random KV."""
        shape = (self.kv_heads, tokens, HEAD_DIM)
        keys, values = ([torch.randn(shape, dtype=self.dtype) for _ in range(2)] for _ in range(2))
        kv = PackKV([0] * tokens, keys, values)
        return AttachedPack("", "", as_bytes(kv) if in_bytes else kv, b"")

    def read_pack(self, sequence: Sequence, pack: AttachedPack, tokens: int) -> None:
        """Puts a pack's beginning before a sequence that has computed nothing yet."""
        sequence.pack = PackReading(pack, tokens)
        sequence.token_ids[:0] = pack.kv.token_ids[:tokens]
        sequence.num_computed = tokens
        keys, values = pack.kv.beginning(1, tokens, self.dtype)
        self.known[sequence.request_id] = keys.transpose(0, 1), values.transpose(0, 1)

    def fork(self, name: str, parent: Sequence, more: int) -> Sequence:
        """A sequence that reads its parent's full blocks in place and goes on with tokens of its own."""
        shared = parent.blocks[: (parent.num_computed - parent.own_start) // BLOCK]
        tokens = parent.own_start + len(shared) * BLOCK
        sequence = self.sequence(name, 1)
        self.pool.release(sequence.blocks)
        sequence.token_ids = [0] * (tokens + more)
        sequence.pack, sequence.num_computed = parent.pack, tokens
        own: list[int] = []
        assert self.pool.extend(own, more)
        sequence.blocks = [*shared, *own]
        keys, values = self.known[parent.request_id]
        self.known[name] = keys[:tokens], values[:tokens]
        return sequence

    def step(self, chunks: list[Chunk], layer: int = 1) -> None:
        """Attends with random q, k, v and compares each chunk with plain attention over all its sequence's tokens."""
        chunks = sorted(chunks, key=lambda chunk: chunk.count > 1)
        tokens = sum(chunk.count for chunk in chunks)
        q = torch.randn(tokens, self.heads, HEAD_DIM, dtype=self.dtype)
        k, v = (torch.randn(tokens, self.kv_heads, HEAD_DIM, dtype=self.dtype) for _ in range(2))
        out = self.attention(self.storage, chunks)(layer, q, k, v)
        assert out.shape == q.shape
        assert out.dtype == self.dtype
        start = 0
        for chunk in chunks:
            rows = slice(start, start + chunk.count)
            start += chunk.count
            keys, values = self.known[chunk.sequence.request_id]
            keys, values = torch.cat([keys, k[rows]]), torch.cat([values, v[rows]])
            self.known[chunk.sequence.request_id] = keys, values
            expected = naive(q[rows], keys, values)
            error = float((out[rows].double() - expected).abs().max())
            assert error < (2e-2 if self.dtype == torch.bfloat16 else 1e-5), (chunk.start, chunk.count, error)
            chunk.sequence.num_computed = chunk.end


@pytest.mark.parametrize("path", PATHS)
@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from([1, 2, 3]), st.sampled_from([1, 3, 8]), st.booleans())
def test_any_mix_of_decodes_and_chunks_equals_plain_attention(
    path: Level | None, data: st.DataObject, kv_heads: int, group: int, in_bf16: bool
) -> None:
    torch.manual_seed(0)
    cache = Cache(kv_heads, group, torch.bfloat16 if in_bf16 else torch.float32, blocks=64, path=path)
    sequences = [cache.sequence(str(n), data.draw(st.integers(1, 60))) for n in range(data.draw(st.integers(1, 5)))]
    while unfinished := [sequence for sequence in sequences if sequence.num_pending]:
        counts = [data.draw(st.integers(0, min(20, sequence.num_pending))) for sequence in unfinished]
        chunks = [Chunk.next(s, count) for s, count in zip(unfinished, counts, strict=True) if count]
        if chunks:
            cache.step(chunks)
        else:
            cache.step([Chunk.next(unfinished[0], 1)])


@pytest.mark.parametrize("path", PATHS)
@settings(deadline=None, max_examples=40)
@given(st.data(), st.sampled_from([1, 2, 3]), st.sampled_from([1, 3, 8]), st.booleans(), st.sampled_from([1, 4]))
def test_any_tree_of_packs_and_shared_blocks_equals_plain_attention(
    path: Level | None, data: st.DataObject, kv_heads: int, group: int, in_bf16: bool, pieces: int
) -> None:
    torch.manual_seed(0)
    cache = Cache(kv_heads, group, torch.bfloat16 if in_bf16 else torch.float32, blocks=400, path=path)
    packs = [
        cache.pack(data.draw(st.sampled_from([1, 30, 64, 65, 70, 150])), in_bytes=data.draw(st.booleans()))
        for _ in range(data.draw(st.integers(0, 3)))
    ]
    sequences: list[Sequence] = []
    for n in range(data.draw(st.integers(1, 3))):  # roots
        sequences.append(cache.sequence(str(n), data.draw(st.integers(1, 12 * BLOCK))))
        if (pack := data.draw(st.sampled_from([None, *packs]))) is not None:
            whole = pack.kv.num_tokens
            cache.read_pack(sequences[-1], pack, data.draw(st.sampled_from([whole, whole, max(1, whole - 20)])))
        cache.step([Chunk.next(sequences[-1], sequences[-1].num_pending)])
    for n in range(data.draw(st.integers(1, 10))):  # branches, and branches of branches
        parent = data.draw(st.sampled_from(sequences))
        sequences.append(cache.fork(f"fork {n}", parent, data.draw(st.integers(3, 40))))
        if data.draw(st.booleans()):
            cache.step([Chunk.next(sequences[-1], sequences[-1].num_pending - 2)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_attention, "num_pieces", lambda tokens, heads, rows: min(pieces, tokens))
        patch.setattr(attention_work, "MIN_ITEM_KEYS", 10)
        patch.setattr(attention_work, "SERIAL_WORK", 0 if pieces > 1 else 10**9)
        for count in (1, data.draw(st.integers(1, 20)), 1):
            behind = [one for one in sequences if one.num_pending]
            if behind:
                cache.step(
                    [Chunk.next(one, min(one.num_pending, count if n % 2 else 1)) for n, one in enumerate(behind)]
                )


def test_questions_that_come_together_fetch_what_they_share_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(2, 3, torch.float32, blocks=100)
    root = cache.sequence("root", 12 * BLOCK)
    cache.step([Chunk.next(root, root.num_pending)])
    forks = [cache.fork(f"fork {number}", root, 6 + number) for number in range(4)]
    fetched: list[int] = []
    gather = cache.storage.gather

    def counted(layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        fetched.append(rows.shape[1])
        return gather(layer, rows)

    monkeypatch.setattr(cache.storage, "gather", counted)
    cache.step([Chunk.next(fork, 4) for fork in forks])
    assert fetched == [12 * BLOCK], "once for all four"
    fetched.clear()
    cache.step([Chunk.next(fork, 2) for fork in forks])
    assert sorted(fetched) == [4, 4, 4, 4, 12 * BLOCK], "and each its own tokens since"


def test_a_run_is_cut_only_where_threads_would_be_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    for threads, tokens, heads, rows, pieces in ((2, 8000, 3, 3, 1), (8, 8000, 3, 3, 3), (8, 8000, 3, 96, 1)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert shared_attention.num_pieces(tokens, heads, rows) == pieces
    assert shared_attention.num_pieces(1500, 1, 1) == 1


@pytest.mark.parametrize("path", PATHS)
def test_sequences_scattered_over_the_cache_equal_plain_attention(path: Level | None) -> None:
    torch.manual_seed(0)
    cache = Cache(3, 3, torch.float32, blocks=64, path=path)
    first = cache.sequence("first", 3 * BLOCK)
    between = cache.sequence("between", 40 * BLOCK)  # keeps the two apart, so that their blocks are copied together
    last = cache.sequence("last", 3 * BLOCK)
    for sequence in (first, between, last):
        cache.step([Chunk.next(sequence, sequence.num_tokens - 2)])
    cache.step([Chunk.next(first, 1), Chunk.next(last, 1)])
    cache.step([Chunk.next(last, 1), Chunk.next(between, 2)])


@pytest.mark.parametrize("path", PATHS)
def test_a_block_that_changed_hands_shows_nothing_of_its_last_owner(path: Level | None) -> None:
    torch.manual_seed(0)
    cache = Cache(1, 3, torch.float32, blocks=4, path=path)
    old = cache.sequence("old", 4 * BLOCK)
    cache.step([Chunk.next(old, 4 * BLOCK)])
    cache.pool.release(old.blocks)
    new = cache.sequence("new", BLOCK + 2)
    cache.step([Chunk.next(new, BLOCK)])
    cache.step([Chunk.next(new, 1)])
    cache.step([Chunk.next(new, 1)])


@pytest.mark.parametrize("path", ["avx2", "avx512"])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(6, 2, 8), (6, 2, 24), (2, 2, 272), (129, 1, 16)])
def test_heads_that_the_kernel_does_not_take_are_attended_by_pytorch(
    path: Level, heads: int, kv_heads: int, head_dim: int
) -> None:
    assert attention_of(path, heads, kv_heads, head_dim) is BatchAttention
    assert attention_of(path, 9, 3, 64) is not BatchAttention


@pytest.mark.parametrize("path", ["avx2", "avx512"])
@pytest.mark.parametrize("head_dim", [48, 64, 80, 128, 256])
@pytest.mark.parametrize("in_bytes", [False, True])
def test_common_head_sizes_over_long_runs_equal_plain_attention(path: Level, head_dim: int, in_bytes: bool) -> None:
    torch.manual_seed(0)
    pack = PackKV([0] * 900, *([torch.randn(2, 900, head_dim)] for _ in range(2)))
    pack = as_bytes(pack) if in_bytes else pack
    held = pack.beginning(0, 900, torch.float32)
    storage = KVStorage(
        num_layers=1, num_kv_heads=2, head_dim=head_dim, dtype=torch.float32, num_blocks=8, block_tokens=32
    )
    sequences = []
    for number, new in enumerate((1, 1, 40)):
        sequence = Sequence(
            GenerationRequest(request_id="", prompt_tokens=[0] * (900 + new), sampling=SamplingParams(max_tokens=1))
        )
        sequence.pack, sequence.num_computed = PackReading(AttachedPack("", "", pack, b""), 900), 900
        sequence.blocks = [2 * number, 2 * number + 1]
        sequences.append(sequence)
    q, k, v = torch.randn(42, 6, head_dim), torch.randn(42, 2, head_dim), torch.randn(42, 2, head_dim)
    chunks = [Chunk.next(sequence, sequence.num_pending) for sequence in sequences]
    out = attention_of(path, 6, 2, head_dim)(storage, chunks)(0, q, k, v)
    for rows in (slice(0, 1), slice(1, 2), slice(2, 42)):
        keys, values = (torch.cat((part.transpose(0, 1), new[rows])) for part, new in zip(held, (k, v), strict=True))
        torch.testing.assert_close(out[rows].double(), naive(q[rows], keys, values), rtol=1e-4, atol=1e-4)


def test_merging_parts_of_the_keys_equals_attending_to_all_of_them() -> None:
    torch.manual_seed(0)
    scores, values = torch.randn(5, 30) * 30, torch.randn(30, 4)

    def state(part: slice) -> tuple[Tensor, Tensor]:
        return scores[:, part].softmax(-1) @ values[part], scores[:, part].logsumexp(-1)

    expected = state(slice(0, 30))[0]
    torch.testing.assert_close(merge([state(slice(0, 7)), state(slice(7, 30))])[0], expected)
    outs, lses = zip(*(state(slice(at, at + 10)) for at in (0, 10, 20)), strict=True)
    owner = torch.arange(5).repeat(3)
    torch.testing.assert_close(merge_scattered(torch.cat(outs), torch.cat(lses), owner, 5), expected)
