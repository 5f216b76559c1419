"""What is shown of a text while it is being written."""

from __future__ import annotations

from collections.abc import Sequence

from readahead_agents.answering.cited import shifted
from readahead_agents.answering.denial import denies
from readahead_agents.answering.figures import numbers
from readahead_retrieval.relevance import said_terms
from readahead_retrieval.types import Citation


class Shown:
    """What is shown of a text: the sentences that passages support, and what leads over to them."""

    def __init__(self) -> None:
        self.text = ""
        self.citations: list[Citation] = []
        self.withheld = 0
        self.declined = False
        """Whether the model says that the passages do not answer; its own words for that are never shown."""
        self._waiting = ""
        self._sentences: list[str] = []

    def says(self, sentence: str) -> bool:
        """Whether one sentence that is shown says as much already."""
        return any(_says_again(sentence, earlier) for earlier in self._sentences)

    def wait(self, sentence: str) -> None:
        """Keeps a sentence that is worth showing only before one that is supported."""
        self._waiting += sentence

    def withhold(self) -> None:
        self._waiting = ""
        self.withheld += 1

    def show(self, sentence: str, citations: Sequence[Citation]) -> str:
        """Takes a supported sentence; gives what is shown now."""
        self._sentences.append(sentence)
        piece = self._waiting + sentence
        piece = piece if self.text else piece.lstrip()
        self._waiting = ""
        self.text += piece
        start = len(self.text) - len(sentence.lstrip())
        self.citations += [shifted(citation, start) for citation in citations]
        return piece


def _says_again(sentence: str, earlier: str) -> bool:
    """Whether a whole sentence says nothing that an earlier one does not; points of a list may."""
    if not sentence.rstrip("\"'”’)").endswith((".", "!", "?", "。")) or denies(sentence) is not denies(earlier):
        return False
    return said_terms(sentence) <= said_terms(earlier) and numbers(sentence) <= numbers(earlier)
