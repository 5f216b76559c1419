"""Few different numbers of rows for oneDNN, which keeps a compiled kernel for each."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

_EXACT_ROWS = 16


def padded_rows(rows: int) -> int:
    """The number of rows that so many are computed as.

    oneDNN compiles a kernel for every number of rows it meets and keeps the last thousand: measured, 0.3 to 0.9 MB for
    each matrix shape, in bf16 and in 8 bits, which grew an engine by 600 MB in minutes of mixed load. So few numbers
    of rows are let through.
    """
    if rows <= _EXACT_ROWS:
        return rows
    step = _EXACT_ROWS if rows <= 4 * _EXACT_ROWS else 2 * _EXACT_ROWS
    return -(-rows // step) * step


def pad_rows(x: Tensor) -> Tensor:
    """x (T, n) with rows of zeros at its end, up to `padded_rows(T)`."""
    missing = padded_rows(len(x)) - len(x)
    return F.pad(x, (0, 0, 0, missing)) if missing else x
