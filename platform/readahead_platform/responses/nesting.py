"""Bodies that hold JSON of any shape: within what their writers and readers manage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from readahead_platform.errors import ApiError

MAX_NESTING = 64
"""Levels of a body; pydantic writes 255, and what is kept is wrapped in some more."""


class BoundedBody(BaseModel):
    """Nested no deeper than it can be kept and shown again."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _is_shallow(cls, values: Any) -> Any:
        level: list[Any] = [values]
        for _ in range(MAX_NESTING):
            level = [inner for each in level for inner in _within(each)]
            if not level:
                return values
        message = f"The body is nested over {MAX_NESTING} levels deep; send what lies deeper as text."
        raise ApiError(400, message, code="nested_too_deep")


def _within(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()
