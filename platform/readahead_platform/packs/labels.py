"""What a pack of a knowledge base is of, as its metadata at the LLM server says."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from readahead_retrieval.types import Document

Pack = Mapping[str, Any]
"""As /v1/packs shows it."""
_KB, _CONTENT, _DOCUMENT = "kb", "content", "document"


def labels(kb_id: str, documents: Sequence[Document], *, single: bool = False) -> dict[str, str]:
    """The metadata of a new pack.

    Args:
        single: It is the pack of one document, and not that of the knowledge base.
    """
    of_document = {_DOCUMENT: documents[0].id} if single else {}
    return {_KB: kb_id, **of_document, _CONTENT: content_of(documents)}


def kb_of(pack: Pack) -> str | None:
    """The knowledge base's id; None for a pack that somebody made of texts of their own."""
    kb_id: str | None = pack["metadata"].get(_KB)
    return kb_id


def document_of(pack: Pack) -> str | None:
    """The id of the only document that it is of; None for the pack of a whole knowledge base."""
    document_id: str | None = pack["metadata"].get(_DOCUMENT)
    return document_id


def held_content(pack: Pack) -> str | None:
    """What it was built of, named as `content_of` does."""
    content: str | None = pack["metadata"].get(_CONTENT)
    return content


def content_of(documents: Sequence[Document]) -> str:
    """Names what a pack of these holds: the documents, in order, but for what a person took out of answers.

    The same bytes are the same document.
    """
    names = (f"{one.id}:{one.revision}" if one.revision else one.id for one in documents)
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:32]
