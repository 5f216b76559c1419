"""OpenAI's cursor paging over lists that are small enough to hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import Depends, Query
from pydantic import BaseModel

from readahead_platform.errors import ApiError


class Cursor(BaseModel):
    """The query of a list request."""

    limit: int
    after: str | None
    before: str | None
    order: Literal["asc", "desc"]


def _cursor(
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    after: str | None = None,
    before: str | None = None,
    order: Literal["asc", "desc"] = "desc",
) -> Cursor:
    return Cursor(limit=limit, after=after, before=before, order=order)


Paging = Annotated[Cursor, Depends(_cursor)]


def list_page(
    oldest_first: Sequence[Mapping[str, Any]],
    cursor: Cursor,
    key: Callable[[Mapping[str, Any]], str] = lambda o: o["id"],
) -> dict[str, Any]:
    """One page in OpenAI's list shape; the SDK follows `has_more` by itself. `before` gives the page that ends there.

    Raises:
        ApiError: 400 when `after` or `before` names nothing in the list.
    """
    items = list(oldest_first) if cursor.order == "asc" else list(reversed(oldest_first))
    ids = [key(item) for item in items]
    start = _place(ids, cursor.after, "after") + 1 if cursor.after is not None else 0
    end = len(items)
    if cursor.before is not None:
        end = _place(ids, cursor.before, "before")
        start = max(start, end - cursor.limit)
    page = items[start : min(end, start + cursor.limit)]
    return {
        "object": "list",
        "data": page,
        "first_id": key(page[0]) if page else None,
        "last_id": key(page[-1]) if page else None,
        "has_more": start > 0 if cursor.before is not None else start + len(page) < end,
    }


def _place(ids: Sequence[str], wanted: str, param: str) -> int:
    if wanted not in ids:
        raise ApiError(400, f"No entry {wanted!r} to go on {param}.", param=param, code="invalid_value")
    return ids.index(wanted)
