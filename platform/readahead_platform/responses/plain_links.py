"""A message of a model that has read what tools told: its links and images lead to this service only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from readahead_agents.answering.shown_text import ShownText
from readahead_platform.responses.writer import Event, MessageWriter, ResponseWriter


class PlainLinksWriter(MessageWriter):
    """Makes the links plain text that lead elsewhere than the operator allows."""

    def __init__(self, writer: ResponseWriter, link_hosts: Sequence[str]) -> None:
        super().__init__(writer)
        self._shown = ShownText(None, link_hosts)

    def write(self, text: str) -> Iterator[Event]:
        if shown := self._shown.feed(text):
            yield from super().write(shown)

    def end(self) -> Iterator[Event]:
        if rest := self._shown.finish():
            yield from super().write(rest)
