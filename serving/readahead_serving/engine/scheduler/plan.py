"""What one step computes."""

from __future__ import annotations

from dataclasses import dataclass

from readahead_serving.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next `count` tokens of one sequence."""

    sequence: Sequence
    start: int
    """Position of the first of them: all before it are computed."""
    count: int

    def __post_init__(self) -> None:
        assert self.count >= 1
        assert self.end <= self.sequence.num_tokens

    @classmethod
    def next(cls, sequence: Sequence, count: int) -> Chunk:
        return cls(sequence, sequence.num_computed, count)

    @property
    def end(self) -> int:
        return self.start + self.count

    @property
    def token_ids(self) -> list[int]:
        return self.sequence.token_ids[self.start : self.end]

    @property
    def catches_up(self) -> bool:
        """Whether the sequence's next token can be sampled after this chunk."""
        return self.end == self.sequence.num_tokens


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The chunks of one forward pass, those of a single token first."""

    chunks: tuple[Chunk, ...] = ()

    @property
    def num_tokens(self) -> int:
        return sum(chunk.count for chunk in self.chunks)
