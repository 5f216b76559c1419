"""Messages between the parent and the process that reads a PDF: MessagePack in frames of a bounded size.

A frame is four bytes of length, big-endian, and that many bytes of MessagePack. Nothing here is pickled: the child
works on bytes of strangers and is not trusted.
"""

from __future__ import annotations

import msgspec

from readahead_retrieval.errors import DocumentErrorCode
from readahead_retrieval.flat_words import FlatWords
from readahead_retrieval.types import Heading, Page, PageQuality

MAX_FRAME_BYTES = 48 << 20
HEADER_BYTES = 4


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

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_messages: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Request | Message) -> bytes:
    """A whole frame.

    Raises:
        ValueError: The message is larger than a frame may be.
    """
    body = _encoder.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {len(body)} bytes exceeds the frame limit of {MAX_FRAME_BYTES}")
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def body_length(header: bytes) -> int:
    """The length that a frame's header announces.

    Raises:
        ValueError: It is larger than a frame may be.
    """
    length = int.from_bytes(header, "big")
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes exceeds the limit of {MAX_FRAME_BYTES}")
    return length


def decode_request(body: bytes) -> Request:
    return _requests.decode(body)


def decode_message(body: bytes) -> Message:
    """Raises msgspec.MsgspecError for anything that is not a message of ours."""
    return _messages.decode(body)
