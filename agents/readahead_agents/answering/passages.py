"""Passages as they stand in a prompt: data that nothing inside it can end.

A passage is a line `[S1] document, page 3` and its text, every line of it indented. Only we write lines that begin at
the margin between the first passage and the question, so the boundary needs no secret and prompts stay cacheable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from readahead_agents.answering.wording import ENGLISH, Wording
from readahead_retrieval.types import Citation, Evidence

INDENT = "  "
NO_PAGE = 0
"""The page of what a tool of another server told: it has none."""
NEAREST = 3
"""Pages named as a hint when the documents do not answer."""
_LINE_ENDS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_LABEL = re.compile(r"\[(?=\s*S\s*\d)", re.IGNORECASE)
# what chat templates write around turns: <|…|>, <s>, </s>, <start_of_turn>, [INST]
_CONTROL = re.compile(r"<(?=[|/a-zA-Z_｜▁])|(?<=[|｜])>|\[(?=/?INST\])", re.IGNORECASE)


def as_data(text: str) -> str:
    """The text with what a prompt gives a meaning to taken apart, readable as before; every line is indented."""
    text = _LABEL.sub("[ ", text)
    text = _CONTROL.sub(lambda match: f" {match.group()}" if match.group() == ">" else f"{match.group()} ", text)
    return "\n".join(f"{INDENT}{line}" for line in _LINE_ENDS.split(text))


def blocks(passages: Sequence[Evidence], texts: Sequence[str]) -> str:
    """The passages, numbered from 1, each with the text that is shown of it."""
    return "\n".join(
        f"[S{number}] {as_data(where(passage)).strip()}\n{as_data(text)}"
        for number, (passage, text) in enumerate(zip(passages, texts, strict=True), start=1)
    )


def where(passage: Evidence, wording: Wording = ENGLISH) -> str:
    """For people: the document's name and the page, with the printed label where it differs; a tool's name alone."""
    return _on_pages(passage.document, passage.page, passage.last_page, passage.page_label, wording)


def where_cited(citations: Sequence[Citation], wording: Wording) -> str:
    """As `where`, of what stands on the pages of citations of one document: a passage may begin on a page before."""
    first, last = (pick(citations, key=lambda citation: citation.page) for pick in (min, max))
    labels = dict.fromkeys((first.page_label, last.page_label))
    label = "–".join(labels) if all(labels) else ""
    same = label in ("", f"{first.page}–{last.page}")
    return _on_pages(first.document, first.page, last.page, "" if same else label, wording)


def _on_pages(document: str, first: int, last: int, printed: str, wording: Wording) -> str:
    if first == NO_PAGE:
        return _one_line(document)
    page = (wording.page if first == last else wording.pages).format(first=first, last=last)
    label = f" (“{printed}”)" if printed not in ("", str(first)) else ""
    return f"{_one_line(document)}, {page}{label}"


def nearest_pages(passages: Sequence[Evidence], wording: Wording) -> str:
    """Says where a refusal's nearest pages are; empty where there is none."""
    pages = dict.fromkeys(where(passage, wording) for passage in passages if passage.page != NO_PAGE)
    return wording.nearest.format(pages="; ".join(list(pages)[:NEAREST])) if pages else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
