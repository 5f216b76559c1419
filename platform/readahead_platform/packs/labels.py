"""Which knowledge bases a pack is of, as its metadata at the LLM server says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from readahead_retrieval.types import Document

Pack = Mapping[str, Any]
"""As /v1/packs shows it."""
_PREFIX = "kb:"
_FIRST = ("kb", "document", "content")
"""What packs of version 0.1.0 say, which had one use each."""


@dataclass(frozen=True, slots=True)
class PackUse:
    """A knowledge base, or a document of one, that has a pack. Equal texts are one pack, so a pack may have several."""

    kb_id: str
    document_id: str | None
    """Of the only document that the pack is for; None where it is for the whole knowledge base."""
    content: str
    """What the pack was asked for of, named as `content_of` does."""

    @property
    def key(self) -> str:
        return _PREFIX + self.kb_id + (f"/{self.document_id}" if self.document_id is not None else "")

    def label(self) -> dict[str, str]:
        """The metadata of a new pack."""
        return {self.key: self.content}


Held = tuple[Pack, PackUse]


def use_of(kb_id: str, documents: Sequence[Document], *, single: bool = False) -> PackUse:
    """The use of a new pack of these.

    Args:
        single: It is for one document, and not for the knowledge base.
    """
    return PackUse(kb_id, documents[0].id if single else None, content_of(documents))


def uses_of(pack: Pack, kb_id: str | None = None) -> list[PackUse]:
    """All of them, or one knowledge base's; none of a pack that somebody made of texts of their own."""
    uses = _uses(pack["metadata"])
    return [use for use in uses if kb_id is None or use.kb_id == kb_id]


def whole_use(pack: Pack, kb_id: str) -> PackUse | None:
    """That of the knowledge base as a whole."""
    return next((use for use in uses_of(pack, kb_id) if use.document_id is None), None)


def without(metadata: Mapping[str, str], uses: Iterable[PackUse]) -> dict[str, str]:
    """The metadata that is left for others; nothing where no knowledge base has the pack any more."""
    ended = {use.key for use in uses}
    kept = [use for use in _uses(metadata) if use.key not in ended]
    if not kept:
        return {}
    own = {key: text for key, text in metadata.items() if not key.startswith(_PREFIX) and key not in _FIRST}
    for use in kept:
        own |= use.label()
    return own


def content_of(documents: Sequence[Document]) -> str:
    """Names what a pack of these holds: the documents, in order, but for what a person took out of answers.

    The same bytes are the same document.
    """
    names = (f"{one.id}:{one.revision}" if one.revision else one.id for one in documents)
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:32]


def _uses(metadata: Mapping[str, str]) -> list[PackUse]:
    found: dict[str, PackUse] = {}
    if (kb_id := metadata.get("kb")) is not None:
        use = PackUse(kb_id, metadata.get("document"), metadata.get("content", ""))
        found[use.key] = use
    for key, content in metadata.items():
        if key.startswith(_PREFIX):
            kb_id, _, document_id = key.removeprefix(_PREFIX).partition("/")
            found[key] = PackUse(kb_id, document_id or None, content)
    return list(found.values())
