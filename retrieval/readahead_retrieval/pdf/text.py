"""Words with their boxes, in the order of the content stream, from a page opened by PDFium.

Runs in the reading process only. Calls PDFium by its raw functions: a page has thousands of characters, and the
helpers' cost for each would be most of the time.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pypdfium2 as pdfium
from pypdfium2 import raw

from readahead_retrieval.pdf.clean import HYPHEN_MARK, clean_word, count_unusable, ends_hyphenated
from readahead_retrieval.pdf.geometry import PageGeometry, Rect
from readahead_retrieval.pdf.words import RawWord, turn_upright

MAX_CHARACTERS = 400_000
"""On one page; a page with more is no page of a document that somebody reads."""

# Scripts that write without spaces are cut into short runs, so that a quote can be marked inside a line.
_CJK = "\u2e80-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff"
# PDFium writes no line break after the mark of a hyphenated line end: the mark itself is the break.
_TOKENS = re.compile(rf"[{_CJK}]{{1,4}}|[^\s{_CJK}{HYPHEN_MARK}]+{HYPHEN_MARK}?|{HYPHEN_MARK}|\n")


_BOLD_NAMES = (b"bold", b"black", b"heavy", b"demi", b"-medi", b"cmbx")


_count_rects = raw.FPDFText_CountRects
_get_rect = raw.FPDFText_GetRect


class PageTooLarge(Exception):
    """More characters than a page may have."""


@dataclass(slots=True)
class PageWords:
    """What the text layer of a page holds."""

    words: list[RawWord]
    visible: int
    """Characters without white space, before cleaning."""
    unusable: int


def page_geometry(page: pdfium.PdfPage) -> PageGeometry:
    left, bottom, right, top = page.get_bbox()
    return PageGeometry(left, bottom, right, top, page.get_rotation())


def extract_words(textpage: pdfium.PdfTextPage, geometry: PageGeometry) -> PageWords:
    """Raises PageTooLarge."""
    count = textpage.count_chars()
    if count > MAX_CHARACTERS:
        raise PageTooLarge(f"{count} characters on one page")
    text = _page_text(textpage, count)
    glyphs = _Glyphs(textpage, geometry)
    words: list[RawWord] = []
    tokens = list(_TOKENS.finditer(text))
    for line in _lines(tokens):
        words += _line_words(line, glyphs)
    turn_upright(words, geometry.width, geometry.height)
    visible = sum(token.end() - token.start() for token in tokens if token.group() != "\n")
    return PageWords(words, visible, count_unusable(text))


def _lines(tokens: Iterable[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
    line: list[re.Match[str]] = []
    for token in tokens:
        if token.group() != "\n":
            line.append(token)
        if line and token.group().endswith(("\n", HYPHEN_MARK)):
            yield line
            line = []
    if line:
        yield line


def _line_words(line: list[re.Match[str]], glyphs: _Glyphs) -> Iterator[RawWord]:
    # One look at the longest word tells the style of the line: a first character may be a footnote's mark.
    longest = max(line, key=lambda token: token.end() - token.start())
    style = glyphs.style(longest.start())
    end = -1
    for token in line:
        start, text = token.start(), clean_word(token.group())
        box = glyphs.box(start, token.end() - start) if text else None
        if box is not None:
            yield RawWord(text, box, box, *style, start == end, ends_hyphenated(token.group()))
        end = token.end()


def _page_text(textpage: pdfium.PdfTextPage, count: int) -> str:
    """The page's characters, one code point for each of PDFium's, so that indexes agree."""
    buffer = (ctypes.c_ushort * (2 * count + 2))()
    written = raw.FPDFText_GetText(textpage.raw, 0, count, buffer)
    text = bytes(memoryview(buffer)[: max(written - 1, 0)]).decode("utf-16-le", errors="surrogatepass")
    if len(text) == count:
        return text
    # PDFium leaves control characters out of the bulk call, which would shift the indexes after them.
    codes = (raw.FPDFText_GetUnicode(textpage.raw, index) for index in range(count))
    return "".join(chr(code) if code <= 0x10FFFF else "\ufffd" for code in codes)


class _Style(NamedTuple):
    size: float
    bold: bool
    turn: int


class _Glyphs:
    """Asks PDFium where characters stand, and how they look."""

    def __init__(self, textpage: pdfium.PdfTextPage, geometry: PageGeometry) -> None:
        self._handle = textpage.raw
        self._geometry = geometry
        self._corners = tuple(ctypes.c_double() for _ in range(4))
        self._loose = raw.FS_RECTF()
        self._font_name = ctypes.create_string_buffer(128)
        self._font_flags = ctypes.c_int()

    def box(self, start: int, length: int) -> Rect | None:
        """The smallest box around the ink of a run of characters; None where none of it is visible."""
        handle = self._handle
        left, top, right, bottom = self._corners
        box: Rect | None = None
        for index in range(_count_rects(handle, start, length)):
            _get_rect(handle, index, left, top, right, bottom)
            part = self._geometry.shown(left.value, bottom.value, right.value, top.value)
            box = part if box is None else box.union(part)
        return box if box is not None and self._geometry.contains_centre(box) else None

    def style(self, index: int) -> _Style:
        """How the text at a character looks."""
        angle = math.degrees(raw.FPDFText_GetCharAngle(self._handle, index))
        size = 0.0
        if raw.FPDFText_GetLooseCharBox(self._handle, index, self._loose):
            loose = self._loose
            sideways = round(angle / 90) % 2 == 1
            size = loose.right - loose.left if sideways else loose.top - loose.bottom
        written = raw.FPDFText_GetFontInfo(self._handle, index, self._font_name, len(self._font_name), self._font_flags)
        name = self._font_name.value.lower() if 0 < written <= len(self._font_name) else b""
        bold = any(sign in name for sign in _BOLD_NAMES)
        return _Style(size, bold, round((self._geometry.rotation + angle) / 90) % 4 * 90)
