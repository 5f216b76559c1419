"""Printed page labels ("iii", "A-4"): what the reader of a paper copy calls a page."""

from __future__ import annotations

import pypdfium2 as pdfium

from readahead_retrieval.pdf.clean import clean_line

MAX_LABEL_CHARACTERS = 32


def page_label(document: pdfium.PdfDocument, number: int) -> str:
    """The label of a 1-based page; its number where the file gives none."""
    return clean_line(document.get_page_label(number - 1))[:MAX_LABEL_CHARACTERS] or str(number)
