"""What one step computes."""

from __future__ import annotations

from dataclasses import dataclass

from readahead_serving.engine.kv.cache import BlockCopy
from readahead_serving.engine.scheduler.cost import StepLoad, pairs
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
        assert self.end <= self.sequence.num_tokens + len(self.sequence.draft)

    @classmethod
    def next(cls, sequence: Sequence, count: int) -> Chunk:
        return cls(sequence, sequence.num_computed, count)

    @property
    def end(self) -> int:
        return self.start + self.count

    @property
    def token_ids(self) -> list[int]:
        certain = self.sequence.token_ids[self.start : self.end]
        return certain + self.sequence.draft[: self.count - len(certain)]

    @property
    def catches_up(self) -> bool:
        """Whether the sequence's next token can be sampled after this chunk."""
        return self.num_choices > 0

    @property
    def num_choices(self) -> int:
        """Rows that tokens are chosen from: the last token's, if the chunk catches up, and each draft token's."""
        return 0 if self.sequence.is_build else max(0, 1 + self.end - self.sequence.num_tokens)

    @property
    def tells_prompt(self) -> bool:
        """Whether log probabilities of prompt tokens are wanted that this chunk's rows tell."""
        return self.sequence.wants_prompt_told and self.end > self.sequence.prompt_told

    @property
    def num_rows(self) -> int:
        """Rows of logits wanted, of the chunk's last tokens: all of them where a prompt is told."""
        return self.count if self.tells_prompt else self.num_choices


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The chunks of one forward pass, those of a single token first."""

    chunks: tuple[Chunk, ...] = ()
    copies: tuple[BlockCopy, ...] = ()
    """Blocks to copy first, in order."""

    @property
    def num_tokens(self) -> int:
        return sum(chunk.count for chunk in self.chunks)

    @property
    def load(self) -> StepLoad:
        """What this step's time depends on."""
        decodes = [chunk for chunk in self.chunks if chunk.sequence.num_pending == 1]
        longer = [chunk for chunk in self.chunks if chunk.sequence.num_pending > 1]
        return StepLoad(
            decode_rows=sum(chunk.count for chunk in decodes),
            decode_context=sum(chunk.end for chunk in decodes),
            prefill_tokens=sum(chunk.count for chunk in longer),
            prefill_pairs=sum(pairs(chunk.start, chunk.end) for chunk in longer),
            prefill_context=sum(chunk.start for chunk in longer),
        )
