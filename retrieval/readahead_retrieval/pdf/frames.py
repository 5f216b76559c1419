"""Messages between the parent and the process that reads a PDF, which is not trusted."""

from __future__ import annotations

import msgspec

from readahead_retrieval.errors import DocumentErrorCode
from readahead_retrieval.flat_words import FlatWords
from readahead_retrieval.framing import Framing
from readahead_retrieval.types import Heading, Page, PageQuality

FRAMING = Framing(48 << 20)


class ReadRequest(msgspec.Struct, tag="read"):
    """Read every page from `first_page` on."""

    path: str
    password: str | None
    memory_bytes: int
    cpu_seconds: int
    max_pages: int
    first_page: int = 1


class RenderRequest(msgspec.Struct, tag="render"):
    """Draw one page, its `boxes` highlighted, `width` pixels wide."""

    path: str
    password: str | None
    memory_bytes: int
    cpu_seconds: int
    page: int
    width: int
    boxes: list[tuple[float, float, float, float]]


class Opened(msgspec.Struct, tag="opened"):
    """The file is open; its pages follow."""

    page_count: int
    title: str
    notes: list[str]
    """What is in the file and is not read, in sentences."""


class PageFrame(msgspec.Struct, tag="page"):
    """One page. Words are flat, six numbers each: start, end, x0, y0, x1, y1."""

    number: int
    label: str
    text: str
    words: list[float]
    headings: list[tuple[int, int, int]]
    quality: PageQuality
    width: float
    height: float

    def page(self) -> Page:
        headings = tuple(Heading(*heading) for heading in self.headings)
        words = FlatWords(self.words)
        return Page(self.number, self.label, self.text, words, self.quality, self.width, self.height, headings)


class Image(msgspec.Struct, tag="image"):
    """A drawn page."""

    png: bytes


class Missing(msgspec.Struct, tag="missing"):
    """The page that was asked for does not exist."""


class Failed(msgspec.Struct, tag="failed"):
    """The file cannot be read at all."""

    code: DocumentErrorCode
    message: str


class Done(msgspec.Struct, tag="done"):
    """Nothing follows."""


Request = ReadRequest | RenderRequest
Message = Opened | PageFrame | Image | Missing | Failed | Done

_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_messages: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def decode_request(body: bytes) -> Request:
    return _requests.decode(body)


def decode_message(body: bytes) -> Message:
    """Raises msgspec.MsgspecError for anything that is not a message of ours."""
    return _messages.decode(body)
