"""What somebody filled into a form: no part of the page's text in the file, and yet what a reader sees there.

The values become words at the place of their field, so that they are read beside their labels and can be highlighted.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import suppress

import pypdfium2 as pdfium
from pypdfium2 import raw

from readahead_retrieval.pdf.clean import clean_word
from readahead_retrieval.pdf.geometry import PageGeometry
from readahead_retrieval.pdf.words import RawWord

MAX_FIELDS = 5_000
"""Of one page."""
MAX_VALUE_CHARACTERS = 20_000
LINE_HEIGHT = 14.0
"""In points: what a line of a field with several is taken to be high."""
CHECKED = "[x]"

_WRITTEN = frozenset({raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX})
_TICKED = frozenset({raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON})


def open_forms(document: pdfium.PdfDocument) -> None:
    """Makes the document's fields known to its pages; nothing where it has none. Before any page is loaded."""
    if document.get_formtype() != raw.FORMTYPE_NONE:
        with suppress(pdfium.PdfiumError):  # a form that is broken leaves the text that is there
            document.init_forms()


def field_words(document: pdfium.PdfDocument, page: pdfium.PdfPage, geometry: PageGeometry) -> list[RawWord]:
    """The words that are filled in on a page."""
    if document.formenv is None:
        return []
    words: list[RawWord] = []
    for index in range(min(raw.FPDFPage_GetAnnotCount(page.raw), MAX_FIELDS)):
        annotation = raw.FPDFPage_GetAnnot(page.raw, index)
        if not annotation:
            continue
        try:
            words += _words(document.formenv.raw, annotation, geometry)
        finally:
            raw.FPDFPage_CloseAnnot(annotation)
    return words


def _words(form: object, annotation: object, geometry: PageGeometry) -> Iterator[RawWord]:
    if raw.FPDFAnnot_GetSubtype(annotation) != raw.FPDF_ANNOT_WIDGET:
        return
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    rect = raw.FS_RECTF()
    if not raw.FPDFAnnot_GetRect(annotation, rect):
        return
    if kind in _TICKED and raw.FPDFAnnot_IsChecked(form, annotation):
        yield from _laid_out([[CHECKED]], rect, geometry)
    elif kind in _WRITTEN:
        value = _text(lambda buffer, size: raw.FPDFAnnot_GetFormFieldValue(form, annotation, buffer, size))
        lines = [list(filter(None, map(clean_word, line.split()))) for line in value.splitlines()]
        yield from _laid_out([line for line in lines if line], rect, geometry)


def _text(get: Callable[[object, int], int]) -> str:
    """What a function of PDFium writes as UTF-16 into a buffer that it is given."""
    size = min(int(get(None, 0)), 2 * MAX_VALUE_CHARACTERS)
    if size <= 2:
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    get(buffer, size)
    return bytes(buffer).decode("utf-16-le", errors="replace").partition("\0")[0]


def _laid_out(lines: list[list[str]], field: raw.FS_RECTF, geometry: PageGeometry) -> Iterator[RawWord]:
    """Words side by side from the field's left edge, each as wide as its share of the characters."""
    width, height = field.right - field.left, field.top - field.bottom
    if not lines or width <= 0 or height <= 0:
        return
    pitch = min(height / len(lines), LINE_HEIGHT) if len(lines) > 1 else height
    size = min(pitch, LINE_HEIGHT)
    widest = max(sum(map(len, line)) + len(line) - 1 for line in lines)
    letter = min(width / widest, size / 2)
    for row, line in enumerate(lines):
        x, y = field.left, field.top - row * pitch
        for word in line:
            box = geometry.shown(x, y - pitch, x + letter * len(word), y)
            yield RawWord(word, box, box, size, False, geometry.rotation, False, False)
            x += letter * (len(word) + 1)
