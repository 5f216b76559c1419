"""Linear layers of oneDNN: any number of rows, in bounded memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from readahead_serving.model.linear import Linear, PackedLinear
from readahead_serving.model.quantize import Int4Linear, Int8Linear
from readahead_serving.model.row_counts import padded_rows

ROW_COUNTS = range(1, 577)
KEPT_MB = 64

needs_bf16 = pytest.mark.skipif(
    not torch.cpu._is_avx512_bf16_supported() and not torch.cpu._is_amx_tile_supported(),
    reason="packed layers are for processors that multiply bfloat16",
)


def anonymous_mb() -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def layer_of(kind: str) -> Linear:
    weight = torch.randn(128, 64)
    match kind:
        case "int8":
            return Int8Linear(weight, None)
        case "int4":
            return Int4Linear(weight, None, torch.bfloat16)
        case _:
            return PackedLinear(weight.bfloat16(), None)


@pytest.mark.parametrize("kind", [pytest.param("bf16", marks=needs_bf16), "int8", "int4"])
def test_any_number_of_rows_keeps_few_kernels_in_memory(kind: str) -> None:
    layer = layer_of(kind)
    layer(torch.randn(512, 64).bfloat16())
    before = anonymous_mb()
    for rows in ROW_COUNTS:
        layer(torch.randn(rows, 64).bfloat16())
    assert anonymous_mb() - before < KEPT_MB


@needs_bf16
@pytest.mark.parametrize("rows", [1, 16, 17, 63, 65, 130])
def test_rows_that_are_added_change_no_result(rows: int) -> None:
    torch.manual_seed(rows)
    weight, bias, x = torch.randn(96, 64).bfloat16(), torch.randn(96).bfloat16(), torch.randn(rows, 64).bfloat16()
    y = PackedLinear(weight, bias)(x)
    exact = F.linear(x.float(), weight.float(), bias.float())
    assert y.shape == exact.shape
    assert y.is_contiguous()
    torch.testing.assert_close(y.float(), exact, rtol=0.01, atol=0.1)


def test_little_is_added() -> None:
    assert all(rows <= padded_rows(rows) <= rows + 31 for rows in ROW_COUNTS)
    assert len({padded_rows(rows) for rows in ROW_COUNTS}) <= 40
