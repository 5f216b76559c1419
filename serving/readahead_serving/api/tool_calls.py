"""Finds tool calls in a completion's text while it streams."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

from readahead_serving.api.tools import CALL_CLOSES, CALL_OPENS

_NAME = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*')
_ARGUMENTS = re.compile(_NAME.pattern + r',\s*"arguments"\s*:\s*(?=\{)')


class TextPiece(NamedTuple):
    """Text outside of calls."""

    text: str


class CallPiece(NamedTuple):
    """A part of one call: its beginning has an id and a name, the parts after it only arguments."""

    number: int
    arguments: str
    id: str | None = None
    name: str | None = None

    def delta(self) -> dict[str, Any]:
        """OpenAI's delta of a streamed call."""
        if self.id is None:
            return {"index": self.number, "function": {"arguments": self.arguments}}
        function = {"name": self.name, "arguments": self.arguments}
        return {"index": self.number, "id": self.id, "type": "function", "function": function}


Piece = TextPiece | CallPiece


class ToolCallReader:
    """Splits a completion into text and calls, piece by piece.

    A piece of text is held back while it could be the beginning of a tag, or white space beside one, and text on both
    sides of calls is parted by a line break. What is no call
    (a server without constrained decoding may write anything) stays text. Arguments that end early stay as they are.
    """

    def __init__(self) -> None:
        self._buffer = ""
        self._step = self._text
        self._arguments = _ObjectScanner()
        self._after_call = self._has_text = False
        self.calls = 0

    def push(self, text: str) -> list[Piece]:
        """The pieces that this text completes."""
        self._buffer += text
        return list(self._run(final=False))

    def flush(self) -> list[Piece]:
        """What is left at the end. The beginning of a call that has no name yet is dropped."""
        return list(self._run(final=True))

    def _run(self, *, final: bool) -> Iterator[Piece]:
        step = None
        while step != self._step:
            step = self._step
            yield from step(final)

    def _text(self, final: bool) -> Iterator[Piece]:
        before, tag, after = self._buffer.partition(CALL_OPENS)
        if self._after_call:
            before = before.lstrip()
        if tag:
            self._buffer, self._step = after, self._head
            before = before.rstrip()
        elif final:
            self._buffer = ""
        else:
            keep = _tag_beginning(before)
            shown = before[: len(before) - keep].rstrip()
            self._buffer, before = before[len(shown) :], shown
        if before:
            yield TextPiece("\n" + before if self._after_call and self._has_text else before)
            self._after_call, self._has_text = False, True

    def _head(self, final: bool) -> Iterator[Piece]:
        if match := _ARGUMENTS.match(self._buffer):
            self._buffer, self._step = self._buffer[match.end() :], self._body
            self._arguments = _ObjectScanner()
            yield self._begin(match)
        elif CALL_CLOSES in self._buffer:
            raw, tag, self._buffer = self._buffer.partition(CALL_CLOSES)
            self._step = self._text
            yield TextPiece(CALL_OPENS + raw + tag)
        elif final and (match := _NAME.match(self._buffer)):
            yield self._begin(match)

    def _begin(self, match: re.Match[str]) -> CallPiece:
        self.calls += 1
        return CallPiece(self.calls - 1, "", f"call_{uuid.uuid4().hex[:24]}", json.loads(match[1]))

    def _body(self, final: bool) -> Iterator[Piece]:
        length = self._arguments.scan(self._buffer)
        fragment, self._buffer = self._buffer[:length], self._buffer[length:]
        if self._arguments.is_complete:
            self._step = self._tail
        if fragment:
            yield CallPiece(self.calls - 1, fragment)

    def _tail(self, final: bool) -> Iterator[Piece]:
        _, tag, after = self._buffer.partition(CALL_CLOSES)
        if tag:
            self._buffer, self._step, self._after_call = after, self._text, True
        return iter(())


class _ObjectScanner:
    """Finds the end of a JSON object that comes in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = False
        self.is_complete = False

    def scan(self, text: str) -> int:
        """How many characters of `text` belong to the object."""
        for position, character in enumerate(text):
            self._take(character)
            if self.is_complete:
                return position + 1
        return len(text)

    def _take(self, character: str) -> None:
        if self._in_string:
            if self._escaped:
                self._escaped = False
            elif character == "\\":
                self._escaped = True
            elif character == '"':
                self._in_string = False
        elif character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            self.is_complete = self._depth == 0


def _tag_beginning(text: str) -> int:
    """Length of the longest end of `text` that the tag could begin with."""
    return next((n for n in range(min(len(CALL_OPENS) - 1, len(text)), 0, -1) if CALL_OPENS.startswith(text[-n:])), 0)
