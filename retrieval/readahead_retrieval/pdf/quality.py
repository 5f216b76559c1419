"""Judges the text layer of a page: what was extracted is not always text."""

from __future__ import annotations

from collections.abc import Collection

from readahead_retrieval.errors import DocumentError
from readahead_retrieval.types import PageQuality

MAX_UNUSABLE_RATIO = 0.15
"""Share of characters without meaning above which a text layer counts as garbage."""

FEW_LETTERS = 24
"""On a page that is one big picture, less text than this is a stamp or a page number, not the text of the page."""


def judge(visible: int, unusable: int, picture_share: float, *, garbled: bool = False) -> PageQuality:
    """What a page's text layer is worth.

    Args:
        visible: Characters extracted, without white space.
        unusable: Those of them that mean nothing (controls, private use, unmapped glyphs).
        picture_share: Share of the page that pictures and drawings without text cover, 0–1.
        garbled: Whether what is left are letters that no language has.
    """
    usable = visible - unusable
    if visible and (garbled or unusable > MAX_UNUSABLE_RATIO * visible):
        return PageQuality.GARBAGE
    if usable < FEW_LETTERS and picture_share > 0.5:
        return PageQuality.NEEDS_OCR
    if usable > 0:
        return PageQuality.OK
    return PageQuality.NEEDS_OCR if picture_share > 0 else PageQuality.BLANK


def document_error(qualities: Collection[PageQuality], ocr_missing: str = "") -> DocumentError | None:
    """Why a document cannot be made searchable, or None when at least one page can be read.

    Args:
        qualities: Of its pages.
        ocr_missing: Why no page was sent to text recognition; empty where they were.
    """
    if PageQuality.OK in qualities or PageQuality.RECOGNISED in qualities:
        return None
    if all(quality is PageQuality.BLANK for quality in qualities):
        return DocumentError("no_text", "The document holds no text and nothing that could be recognised as text.")
    tried = ocr_missing or "Text recognition (OCR) found nothing that it could read with confidence either."
    return DocumentError(
        "needs_ocr",
        f"No page has a readable text layer (a scan, or fonts without a character mapping). {tried} "
        "Or run the file through text recognition elsewhere and upload the result.",
    )
