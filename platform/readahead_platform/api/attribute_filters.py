"""OpenAI's filters by attributes: comparisons, joined by `and` and `or`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from readahead_retrieval.types import Attributes

MAX_DEPTH = 8
MAX_VALUES = 1000
Value = Annotated[bool, Field(strict=True)] | Annotated[float, Field(strict=True)] | str


class Comparison(BaseModel):
    """A file without the key matches `ne` and `nin` only; values of different kinds are unequal and have no order."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: str
    value: Value | Annotated[list[Value], Field(max_length=MAX_VALUES)]

    @model_validator(mode="after")
    def _lists_are_for_in(self) -> Comparison:
        if isinstance(self.value, list) != (self.type in {"in", "nin"}):
            raise ValueError(f"{self.type} compares with {'a list' if self.type in {'in', 'nin'} else 'one value'}")
        if self.type in {"gt", "gte", "lt", "lte"} and isinstance(self.value, bool):
            raise ValueError(f"{self.type} needs a number or a text")
        return self

    def matches(self, attributes: Attributes) -> bool:
        held = attributes.get(self.key)
        if isinstance(self.value, list):
            return any(_equal(held, value) for value in self.value) == (self.type == "in")
        if self.type in {"eq", "ne"}:
            return _equal(held, self.value) == (self.type == "eq")
        return _in_order(held, self.value, self.type)


class Compound(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["and", "or"]
    filters: list[Filter] = Field(min_length=1, max_length=MAX_VALUES)

    @model_validator(mode="after")
    def _is_not_too_deep(self) -> Compound:
        if self.depth() > MAX_DEPTH:
            raise ValueError(f"filters are nested more than {MAX_DEPTH} deep")
        return self

    def depth(self) -> int:
        return 1 + max(one.depth() if isinstance(one, Compound) else 0 for one in self.filters)

    def matches(self, attributes: Attributes) -> bool:
        each = (one.matches(attributes) for one in self.filters)
        return all(each) if self.type == "and" else any(each)


_JOINED, _COMPARED = "and, or", "a comparison"
"""No identifiers, so that errors do not take them for fields."""


def _branch(value: Any) -> str:
    """Chosen by `type`, so that what is wrong is told of the branch that was meant."""
    kind = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    return _JOINED if kind in ("and", "or") else _COMPARED


Filter = Annotated[Annotated[Comparison, Tag(_COMPARED)] | Annotated[Compound, Tag(_JOINED)], Discriminator(_branch)]


def _kind(value: object) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _equal(held: object, value: object) -> bool:
    return _kind(held) is _kind(value) and held == value


def _in_order(held: object, value: object, operator: str) -> bool:
    if isinstance(held, str) and isinstance(value, str):
        return _compare(held > value, held == value, operator)
    if _kind(held) is float and _kind(value) is float:
        assert isinstance(held, int | float)
        assert isinstance(value, int | float)
        return _compare(held > value, held == value, operator)
    return False


def _compare(greater: bool, equal: bool, operator: str) -> bool:
    return {
        "gt": greater,
        "gte": greater or equal,
        "lt": not greater and not equal,
        "lte": not greater,
    }[operator]
