"""What every action returns: a text together with the evidence that it was written from."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from readahead_retrieval.types import Citation, Evidence


class Table(BaseModel):
    """Rows that stand together on a page, cell by cell."""

    model_config = ConfigDict(frozen=True)

    document: str
    document_id: str
    page: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class ActionResult(BaseModel):
    """The structured output of an action, as it crosses MCP."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    text: str
    covered: bool = True
    """False when the documents do not hold what was asked for, and the text says so."""
    quoted: bool = False
    """The text ends with a quotation, as no passage supports the model's own words."""
    finish_reason: Literal["stop", "length"] = "stop"
    """Whether the text ended by itself or at its limit of tokens."""
    evidence: tuple[Evidence, ...] = Field(default=(), max_length=64)
    """The passages it was written from, in the order of their numbers."""
    citations: tuple[Citation, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out."""
