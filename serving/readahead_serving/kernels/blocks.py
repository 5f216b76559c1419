"""Weights as whole numbers of few bits in groups, as GGUF files hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
from torch import Tensor

Bits = Literal[4, 8]


@dataclass(frozen=True)
class Blocks:
    """A weight (out, in). In float32, a value is its group's scale times its number, plus the group's minimum."""

    bits: Bits
    numbers: Tensor
    """(out, in) int8. Of 4 bits they are 0 to 15, or -8 to 7 where there are no minimums."""
    scales: Tensor
    """(out, in / group), float16 or float32; a group is 16 or 32 inputs."""
    minimums: Tensor | None = None
    """Like the scales, which they are added to; zero where there are none."""

    def __post_init__(self) -> None:
        assert self.numbers.dtype is torch.int8
        assert self.minimums is None or (self.minimums.dtype, self.minimums.shape) == (
            self.scales.dtype,
            self.scales.shape,
        )

    @property
    def shape(self) -> tuple[int, int]:
        outputs, inputs = self.numbers.shape
        return outputs, inputs

    @property
    def form(self) -> tuple[Bits, int, torch.dtype, bool]:
        """Bits, inputs of a group, the scales' dtype, whether there are minimums."""
        return self.bits, self.shape[1] // self.scales.shape[1], self.scales.dtype, self.minimums is not None

    def with_rows(self, change: Callable[[Tensor], Tensor]) -> Blocks:
        """The same with its rows in another order."""
        minimums = None if self.minimums is None else change(self.minimums)
        return Blocks(self.bits, change(self.numbers), change(self.scales), minimums)

    def values(self) -> Tensor:
        """(out, in) float32."""
        scales = self.scales.float().unsqueeze(-1)
        values = self.numbers.view(*self.scales.shape, -1) * scales
        return (values if self.minimums is None else values + self.minimums.float().unsqueeze(-1)).flatten(1)


def stack(parts: Sequence[Blocks]) -> list[Blocks]:
    """Weights one under the other: those that follow each other in one form become one."""
    return [_join(list(same)) for _, same in groupby(parts, key=lambda part: part.form)]


def _join(parts: list[Blocks]) -> Blocks:
    if len(parts) == 1:
        return parts[0]
    minimums = [part.minimums for part in parts if part.minimums is not None]
    return Blocks(
        parts[0].bits,
        torch.cat([part.numbers for part in parts]),
        torch.cat([part.scales for part in parts]),
        torch.cat(minimums) if minimums else None,
    )
