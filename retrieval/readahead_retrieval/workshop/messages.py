"""What the service and a workshop process say to each other: one answer to each request, in MessagePack."""

from __future__ import annotations

from typing import Literal

import msgspec

from readahead_retrieval.framing import Framing
from readahead_retrieval.types import Chunk, Heading, Page, PageQuality, PageSpan

FRAMING = Framing(1 << 30)
"""Both ends are ours and send slices; more than this is no message."""


class Count(msgspec.Struct, tag="count"):
    """How tokens are counted from now on; sent once, when the process has started."""

    definition: str
    """See `TokenCounter.definition`."""


class Cut(msgspec.Struct, tag="cut"):
    """Begins a document; its pages follow."""

    max_tokens: int
    overlap_tokens: int


class PageText(msgspec.Struct, array_like=True):
    """Of a page what chunks are made of."""

    number: int
    text: str
    quality: PageQuality
    headings: list[tuple[int, int, int]]

    @classmethod
    def of(cls, page: Page) -> PageText:
        return cls(page.number, page.text, page.quality, [(h.start, h.end, h.level) for h in page.headings])

    def page(self) -> Page:
        headings = tuple(Heading(*heading) for heading in self.headings)
        return Page(self.number, "", self.text, (), self.quality, 0.0, 0.0, headings)


class Pages(msgspec.Struct, tag="pages"):
    """The next pages of the document; answered by the chunks that are complete."""

    pages: list[PageText]


class LastPages(msgspec.Struct, tag="last_pages"):
    """There are no more; answered by the chunks that are left."""


class Build(msgspec.Struct, tag="build"):
    """Begins an index generation; see `GenerationWriter`."""

    folder: str
    kb_id: str
    embedding_model: str
    dimension: int
    base: tuple[str, str] | None
    """Folder and manifest's SHA-256 of the generation to build upon."""


class Remove(msgspec.Struct, tag="remove"):
    """Ids of chunks to take out of the base."""

    ids: list[int]


class Add(msgspec.Struct, tag="add"):
    """Chunks to put in: id, document's id, text; and their vectors, float32 and little-endian, one after another."""

    entries: list[tuple[int, str, str]]
    vectors: bytes


class Publish(msgspec.Struct, tag="publish"):
    """Makes the generation appear."""


class Ready(msgspec.Struct, tag="ready"):
    """Done, and nothing to tell."""


class Chunks(msgspec.Struct, tag="chunks"):
    """Text, heading, and spans (page, start, end) of each."""

    chunks: list[tuple[str, str, list[tuple[int, int, int]]]]

    @classmethod
    def of(cls, chunks: list[Chunk]) -> Chunks:
        return cls([(c.text, c.heading, [(s.page, s.start, s.end) for s in c.spans]) for c in chunks])

    def made(self) -> list[Chunk]:
        return [Chunk(text, tuple(PageSpan(*s) for s in spans), heading) for text, heading, spans in self.chunks]


class Published(msgspec.Struct, tag="published"):
    """The generation is there; its manifest's SHA-256."""

    sha256: str


class Failed(msgspec.Struct, tag="failed"):
    """What was begun is given up."""

    kind: Literal["full", "damaged", "broken"]
    """No room on the disk; the base does not hold what was published; anything else."""
    message: str


Request = Count | Cut | Pages | LastPages | Build | Remove | Add | Publish
Reply = Ready | Chunks | Published | Failed

_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def decode_request(body: bytes) -> Request:
    return _requests.decode(body)


def decode_reply(body: bytes) -> Reply:
    """Raises msgspec.MsgspecError for what is no reply."""
    return _replies.decode(body)
