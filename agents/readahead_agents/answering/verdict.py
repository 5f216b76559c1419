"""What a sentence of an answer is worth, and who tells it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from readahead_retrieval.types import Citation


class Verdict(StrEnum):
    """What a sentence is worth."""

    SUPPORTED = "supported"
    GLUE = "glue"
    """Says nothing that could be wrong; worth showing before something that is supported."""
    UNSUPPORTED = "unsupported"
    ECHO = "echo"
    """The question or the prompt said again."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A sentence's verdict, and the passages that it stands on: citations of it, from 0."""

    verdict: Verdict
    citations: tuple[Citation, ...] = ()


class SentenceJudge(Protocol):
    """Tells what a sentence of an answer is worth."""

    async def judge(self, sentence: str) -> Judged:
        """Judges one sentence. Raises nothing: what cannot be compared is not supported."""
        ...
