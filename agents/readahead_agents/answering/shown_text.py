"""What of a model's text is shown: invented markers dropped, links that leave the service made plain, in a stream."""

from __future__ import annotations

import re
from collections.abc import Sequence

from readahead_retrieval.types import Evidence

_MARKER = re.compile(r"[ \t]?\[\s{0,2}(S?\d{1,4}(?:\s{0,2}[,;]\s{0,2}S?\d{1,4}){0,9})\s{0,2}\]", re.IGNORECASE)
# a markdown link or image whose target is not on this service, a link definition, an HTML tag
_OFF_SERVICE = re.compile(r"\](?=\((?!\s{0,3}(?:#|/(?![/\\])))|:)|<(?=[a-zA-Z/!?])")
# the end of a text that could still become one of these; a marker has at most 100 characters between its brackets
_UNFINISHED = re.compile(r"(?:[ \t]|[ \t]?\[[\sSs\d,;]{0,100}(?:\](?:\(\s{0,3}/?)?)?|\](?:\(\s{0,3}/?)?|<)\Z")


class ShownText:
    """A filter for streamed text; the joined results are what one call over the whole text gives.

    Args:
        passages: The numbered passages of the prompt: `[S1]` to `[Sn]` are theirs. Any other marker is dropped,
            unless the passages themselves hold it letter for letter.
    """

    def __init__(self, passages: Sequence[Evidence]) -> None:
        self._count = len(passages)
        self._texts = [passage.text for passage in passages]
        self._held = ""

    def feed(self, text: str) -> str:
        """What can be shown now; an open bracket is held back until it closes or proves to be something else."""
        text = self._held + text
        unfinished = _UNFINISHED.search(text)
        cut = len(text) if unfinished is None else unfinished.start()
        self._held = text[cut:]
        return self._clean(text[:cut])

    def finish(self) -> str:
        """What was still held back."""
        text, self._held = self._held, ""
        return self._clean(text)

    def _clean(self, text: str) -> str:
        text = _MARKER.sub(lambda match: match.group() if self._known(match) else "", text)
        return _OFF_SERVICE.sub(lambda match: f"{match.group()} ", text)

    def _known(self, match: re.Match[str]) -> bool:
        ids = re.split(r"\s*[,;]\s*", match.group(1))
        if all(label[0] in "Ss" and 1 <= int(label[1:]) <= self._count for label in ids):
            return True
        return any(match.group().strip() in text for text in self._texts)


def plain(text: str) -> str:
    """A tool's own text without links that leave the service."""
    return _OFF_SERVICE.sub(lambda match: f"{match.group()} ", text)
