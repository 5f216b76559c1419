"""Passages as they stand in a prompt: data between marks that nothing inside them can close."""

from __future__ import annotations

import re
from collections.abc import Sequence

from readahead_retrieval.types import Evidence

OPEN, CLOSE = "<<<", ">>>"
# what could close our marks, begin another passage, or pass for a chat template's own tokens
_MARK = re.compile(r"<{3,}|>{3,}")
_LABEL = re.compile(r"\[(?=\s*S\s*\d)", re.IGNORECASE)
_CONTROL = re.compile(r"<(?=[|/a-zA-Z_｜▁])|(?<=[|｜])>|\[(?=/?INST\])", re.IGNORECASE)


def as_data(text: str) -> str:
    """The text with everything that a prompt gives a meaning to taken apart, readable as before."""
    text = _MARK.sub(lambda match: " ".join(match.group()), text)
    text = _LABEL.sub("[ ", text)
    return _CONTROL.sub(lambda match: f"{match.group()} " if match.group() in "<[" else f" {match.group()}", text)


def block(number: int, passage: Evidence) -> str:
    """One passage: `[S1] document, page 3`, its text between the marks."""
    heading = f"{as_data(_one_line(passage.heading))}\n" if passage.heading else ""
    return f"[S{number}] {as_data(where(passage))}\n{OPEN}\n{heading}{as_data(passage.text)}\n{CLOSE}"


def blocks(passages: Sequence[Evidence]) -> str:
    return "\n".join(block(number, passage) for number, passage in enumerate(passages, start=1))


def where(passage: Evidence) -> str:
    """For people: the document's name and the page, with the printed label where it differs."""
    page = f"page {passage.page}" if passage.page == passage.last_page else f"pages {passage.page}–{passage.last_page}"
    label = f" (“{passage.page_label}”)" if passage.page_label not in ("", str(passage.page)) else ""
    return f"{_one_line(passage.document)}, {page}{label}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
