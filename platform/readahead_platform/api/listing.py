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
    order: Literal["asc", "desc"]


def _cursor(
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    after: str | None = None,
    order: Literal["asc", "desc"] = "desc",
) -> Cursor:
    return Cursor(limit=limit, after=after, order=order)


Paging = Annotated[Cursor, Depends(_cursor)]


def list_page(
    oldest_first: Sequence[Mapping[str, Any]],
    cursor: Cursor,
    key: Callable[[Mapping[str, Any]], str] = lambda o: o["id"],
) -> dict[str, Any]:
    """One page in OpenAI's list shape; the SDK follows `has_more` by itself.

    Raises:
        ApiError: 400 when `after` names nothing in the list.
    """
    items = list(oldest_first) if cursor.order == "asc" else list(reversed(oldest_first))
    start = 0
    if cursor.after is not None:
        ids = [key(item) for item in items]
        if cursor.after not in ids:
            raise ApiError(400, f"No entry {cursor.after!r} to go on after.", param="after", code="invalid_value")
        start = ids.index(cursor.after) + 1
    page = items[start : start + cursor.limit]
    return {
        "object": "list",
        "data": page,
        "first_id": key(page[0]) if page else None,
        "last_id": key(page[-1]) if page else None,
        "has_more": start + len(page) < len(items),
    }
