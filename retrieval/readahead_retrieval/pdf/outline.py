"""The outline that an author gave the file: which lines are headings, and of which level, without guessing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pypdfium2 as pdfium

from readahead_retrieval.pdf.clean import title_key

MAX_ENTRIES = 5_000
MAX_DEPTH = 8
MAX_LEVEL = 3
"""Deeper headings count as this."""


def read_outline(document: pdfium.PdfDocument) -> dict[int, dict[str, int]]:
    """By 1-based page the titles that lead there, as `title_key` has them, and their levels.

    What is broken, or leads in circles, is left out.
    """
    pages: dict[int, dict[str, int]] = {}
    for page, title, level in _entries(document):
        key = title_key(title)
        if key:
            pages.setdefault(page, {}).setdefault(key, level)
    return pages


def _entries(document: pdfium.PdfDocument) -> Iterator[tuple[int, str, int]]:
    for bookmark in islice(document.get_toc(max_depth=MAX_DEPTH), MAX_ENTRIES):
        try:
            target, title = bookmark.get_dest(), bookmark.get_title()
        except (pdfium.PdfiumError, UnicodeDecodeError):
            continue
        index = None if target is None else target.get_index()
        if index is not None:
            yield index + 1, title, min(bookmark.level + 1, MAX_LEVEL)
