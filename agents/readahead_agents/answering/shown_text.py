"""What of a model's text is shown: invented markers dropped, links that leave the service made plain, in a stream."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from pydantic import Field

from readahead_retrieval.types import Evidence

LinkHost = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?$", max_length=260)]
"""A host, with its port where it has one: `wiki.example.org`."""

_MARKER = re.compile(r"[ \t]?\[\s{0,2}(S?\d{1,4}(?:\s{0,2}[,;]\s{0,2}S?\d{1,4}){0,9})\s{0,2}\]", re.IGNORECASE)
_HERE = r"#|/(?![/\\&])"
"""What the target of a link within this service begins with. An entity behind the slash may be one more slash."""


@dataclass(frozen=True, slots=True)
class _Links:
    """Where links may lead; patterns for those that lead elsewhere."""

    off_service: re.Pattern[str]
    """A markdown link or image whose target is neither on this service nor on an allowed host, a link definition, an
    HTML tag."""
    unfinished: re.Pattern[str]
    """The end of a text that could still become one, or a marker: it has at most 100 characters in its brackets."""


@cache
def _links(hosts: tuple[str, ...]) -> _Links:
    here, target = _HERE, r"\(\s{0,3}/?"
    if hosts:
        # the host ends where a path, a query or the target does: "allowed.example@evil.example" is another host
        here += rf"|https?://(?:{'|'.join(map(re.escape, hosts))})(?=[/?#)])"
        target = rf"\(\s{{0,3}}[^\s()]{{0,{len('https://') + max(map(len, hosts))}}}"
    return _Links(
        re.compile(rf"\](?=\((?!\s{{0,3}}(?:{here}))|:)|<(?=[a-zA-Z/!?])", re.IGNORECASE),
        re.compile(rf"(?:[ \t]|[ \t]?\[[\sSs\d,;]{{0,100}}(?:\](?:{target})?)?|\](?:{target})?|<)\Z"),
    )


class ShownText:
    """A filter for streamed text; the joined results are what one call over the whole text gives.

    Args:
        passages: The numbered passages of the prompt: `[S1]` to `[Sn]` are theirs. Any other marker is dropped,
            unless the passages themselves hold it letter for letter. None where the prompt numbered none: then
            brackets with numbers mean what they mean to whoever asked.
        link_hosts: Hosts that links and images may lead to beside this service.
    """

    def __init__(self, passages: Sequence[Evidence] | None, link_hosts: Sequence[str] = ()) -> None:
        self._links = _links(tuple(link_hosts))
        self._keeps_markers = passages is None
        self._count = len(passages or ())
        self._texts = [passage.text for passage in passages or ()]
        self._held = ""

    def feed(self, text: str) -> str:
        """What can be shown now; an open bracket is held back until it closes or proves to be something else."""
        text = self._held + text
        unfinished = self._links.unfinished.search(text)
        cut = len(text) if unfinished is None else unfinished.start()
        self._held = text[cut:]
        return self._clean(text[:cut])

    def finish(self) -> str:
        """What was still held back."""
        text, self._held = self._held, ""
        return self._clean(text)

    def _clean(self, text: str) -> str:
        if not self._keeps_markers:
            text = _MARKER.sub(lambda match: match.group() if self._known(match) else "", text)
        return self._links.off_service.sub(lambda match: f"{match.group()} ", text)

    def _known(self, match: re.Match[str]) -> bool:
        ids = re.split(r"\s*[,;]\s*", match.group(1))
        if all(label[0] in "Ss" and 1 <= int(label[1:]) <= self._count for label in ids):
            return True
        return any(match.group().strip() in text for text in self._texts)


def plain(text: str) -> str:
    """What documents and tools say, without links that leave the service, whatever hosts are allowed."""
    return _links(()).off_service.sub(lambda match: f"{match.group()} ", text)
