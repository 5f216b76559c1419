"""Packs under construction."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.request import GenerationRequest, SamplingParams
from readahead_serving.engine.sequence import Sequence

BUILD_PRIORITY = 1_000_000
"""Behind every request: a build computes in what time and room they leave."""


class BuildProgress(NamedTuple):
    pack_id: str
    num_computed: int
    num_tokens: int


class PackBuilds:
    """A build is a sequence of which nothing but the KV is wanted, laid out as a pack when it is computed.

    Args:
        lay_out: Copies the KV of a sequence that is computed.
    """

    def __init__(self, lay_out: Callable[[Sequence], PackKV]) -> None:
        self._lay_out = lay_out
        self._building: dict[str, Sequence] = {}
        self._built: dict[str, PackKV] = {}

    def begin(self, pack_id: str, salt: str, token_ids: list[int]) -> GenerationRequest:
        """The request that computes the pack's tokens; its id is the pack's."""
        return GenerationRequest(
            request_id=pack_id,
            prompt_tokens=token_ids,
            sampling=SamplingParams(max_tokens=0),
            priority=BUILD_PRIORITY,
            salt=salt,
        )

    def note(self, sequence: Sequence) -> None:
        """Takes a build's sequence in, so that its progress can be told."""
        self._building[sequence.request_id] = sequence

    def finish(self, sequence: Sequence) -> None:
        """Lays the KV out; the sequence can be released then."""
        self._built[sequence.request_id] = self._lay_out(sequence)

    def forget(self, sequence: Sequence) -> None:
        """The sequence has ended, built or not."""
        self._building.pop(sequence.request_id, None)

    def progress(self) -> list[BuildProgress]:
        return [BuildProgress(name, one.num_computed, one.num_tokens) for name, one in self._building.items()]

    def take(self, pack_id: str) -> PackKV:
        """Hands a finished pack over; it is kept here no longer."""
        return self._built.pop(pack_id)
