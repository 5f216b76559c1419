"""Kept answers, read when documents that they cite may be gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from readahead_retrieval.library import Library


async def with_deletions(library: Library, tenant: str, kept: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Items or responses as they were kept, but for `deleted` beside each `document_id` that is a document no more.

    Their quotes stay; the links to their pages answer 410.
    """
    cited = list(dict.fromkeys(_cited(kept)))
    gone = set(cited) - await library.existing(tenant, cited) if cited else set()
    return [_marked(one, gone) for one in kept]


def _cited(value: Any) -> Iterator[str]:
    """Ids in whatever a kept answer is made of."""
    if isinstance(value, Mapping):
        document_id = value.get("document_id")
        if isinstance(document_id, str):
            yield document_id
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for part in value:
        yield from _cited(part)


def _marked(value: Any, gone: set[str]) -> Any:
    if isinstance(value, Mapping):
        marked = {name: _marked(part, gone) for name, part in value.items()}
        document_id = value.get("document_id")
        return marked | {"deleted": True} if isinstance(document_id, str) and document_id in gone else marked
    return [_marked(part, gone) for part in value] if isinstance(value, list | tuple) else value
