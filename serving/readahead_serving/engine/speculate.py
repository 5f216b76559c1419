"""Prompt-lookup speculation: what followed the same words before is proposed to follow them again.

After "Prompt Lookup Decoding" (Saxena 2023) and "LLMA" (arXiv:2304.04487). A proposal costs microseconds and no model;
the engine computes it in the same step as the token before it and keeps what the model would have said itself, so
greedy output never changes. It pays where answers quote their prompt, as answers from documents do.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np

from readahead_serving.engine.sampling import GREEDY_BELOW
from readahead_serving.engine.sequence import Sequence

LONGEST_MATCH = 4
SHORTEST_MATCH = 2
"""Tokens that must recur; a single one recurs by chance too often."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """How much greedy requests may run ahead."""

    tokens: int
    """Draft tokens of one sequence in one step at most; 0 turns speculation off."""
    max_running: int
    """With more sequences running there are no drafts: the batch uses up what they would ride on."""


NO_SPECULATION = Speculation(tokens=0, max_running=0)


class PromptLookup:
    """Proposes continuations out of one sequence's own tokens."""

    def __init__(self) -> None:
        self._tokens = array("i")

    def propose(self, token_ids: Seq[int], count: int) -> list[int]:
        """What followed the latest earlier occurrence of the last tokens.

        Args:
            token_ids: Prompt and completion; what an earlier call was given must be its beginning.
            count: Tokens at most.

        Returns:
            Up to `count` tokens; none where nothing recurs.
        """
        self._tokens.extend(token_ids[len(self._tokens) :])
        size = len(self._tokens)
        if size <= SHORTEST_MATCH or count < 1:
            return []
        tokens = np.frombuffer(self._tokens, np.int32)
        # positions just after an earlier occurrence of the last tokens, narrowed token by token
        ends = np.flatnonzero(tokens[: size - 1] == tokens[size - 1]) + 1
        matched = 1
        while matched < LONGEST_MATCH and matched < size - 1:
            longer = ends[ends > matched]
            longer = longer[tokens[longer - 1 - matched] == tokens[size - 1 - matched]]
            if not len(longer):
                break
            ends, matched = longer, matched + 1
        if matched < SHORTEST_MATCH or not len(ends):
            return []
        start = int(ends[-1])
        return [int(token) for token in tokens[start : start + count]]


class Drafter:
    """Gives sequences their drafts before a step, and counts what became of them.

    Only greedy requests without a constraint get any: sampled ones would need exact rejection sampling, and a
    constraint knows its certain tokens itself.
    """

    def __init__(self, speculation: Speculation) -> None:
        self._speculation = speculation
        self._lookups: dict[str, PromptLookup] = {}
        self.proposed = self.accepted = 0

    def propose(self, sequences: Iterable[Sequence], num_running: int) -> None:
        """Replaces the drafts of all sequences; only those that are decoding, in a small batch, have one."""
        on = self._speculation.tokens > 0 and num_running <= self._speculation.max_running
        for sequence in sequences:
            sequence.draft = self._draft(sequence) if on and self._is_open(sequence) else []

    def confirm(self, sequence: Sequence, count: int) -> None:
        """Notes that the first `count` draft tokens were right: their keys and values are computed already."""
        self.proposed += len(sequence.draft)
        self.accepted += count
        sequence.num_computed += count
        sequence.draft = []

    def forget(self, sequence: Sequence) -> None:
        """Drops what is known of a sequence that has ended."""
        self._lookups.pop(sequence.request_id, None)

    def _draft(self, sequence: Sequence) -> list[int]:
        lookup = self._lookups.setdefault(sequence.request_id, PromptLookup())
        return lookup.propose(sequence.token_ids, min(self._speculation.tokens, sequence.num_wanted - 1))

    @staticmethod
    def _is_open(sequence: Sequence) -> bool:
        params = sequence.request.sampling
        free = params.json_schema is None and params.regex is None and params.grammar is None
        return free and params.temperature < GREEDY_BELOW and sequence.num_pending == 1 and sequence.num_computed > 0
