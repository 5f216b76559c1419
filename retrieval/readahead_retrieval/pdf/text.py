"""Words with their boxes, in the order of the content stream, from a page opened by PDFium.

Runs in the reading process only. Calls PDFium by its raw functions: a page has thousands of characters, and the
helpers' cost for each would be most of the time.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import pypdfium2 as pdfium
from pypdfium2 import raw

from readahead_retrieval.pdf.clean import HYPHEN_MARK, clean_word, count_unusable, ends_hyphenated
from readahead_retrieval.pdf.geometry import PageGeometry, Rect
from readahead_retrieval.pdf.letters import is_garbled
from readahead_retrieval.pdf.words import RawWord

MAX_CHARACTERS = 400_000
"""On one page; a page with more is no page of a document that somebody reads."""

# Scripts that write without spaces are cut into short runs, so that a quote can be marked inside a line.
_CJK = "\u2e80-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff"
_TOKENS = re.compile(rf"[{_CJK}]{{1,4}}|[^\s{_CJK}{HYPHEN_MARK}]+{HYPHEN_MARK}?|{HYPHEN_MARK}")
_CUT_ELSEWHERE = re.compile(f"[{_CJK}{HYPHEN_MARK}]")

# A word, and the digits behind it that are a footnote's mark where they are raised; m2 and CO2 are no words for that.
_NOTED = re.compile(r"(.*(?:[^\W\d_]{3}|[^\W_][^\w\s]{1,3}))(\d{1,3}[.,;:)]?)")
_RAISED_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_RAISED_SIZE, _RAISED_BY = 0.85, 0.15
"""Of the line height of the letter before: a mark is at most so high, and begins so much higher."""

_BOLD_NAMES = (b"bold", b"black", b"heavy", b"demi", b"-medi", b"cmbx")


_DOUBLE = ctypes.sizeof(ctypes.c_double)
_ADDRESS = ctypes.c_void_p
# The same two functions, called with plain addresses: wrapping each argument would cost as much as the call.
_count_rects = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, ctypes.c_int, ctypes.c_int)(
    ctypes.cast(raw.FPDFText_CountRects, _ADDRESS).value or 0
)
_get_rect = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, ctypes.c_int, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS)(
    ctypes.cast(raw.FPDFText_GetRect, _ADDRESS).value or 0
)


_USHORTS = ctypes.POINTER(ctypes.c_ushort)


@lru_cache(maxsize=64)
def _array_type(length: int) -> type[ctypes.Array[ctypes.c_double]]:
    return ctypes.c_double * length


def _doubles(length: int) -> ctypes.Array[ctypes.c_double]:
    """At least so many; of few lengths, because each makes a type of its own."""
    return _array_type(1 << length.bit_length())()


class PageTooLarge(Exception):
    """More characters than a page may have."""


@dataclass(slots=True)
class PageWords:
    """What the text layer of a page holds."""

    words: list[RawWord]
    visible: int
    """Characters without white space, before cleaning."""
    unusable: int
    garbled: bool
    """Letters, but not those of a language."""


def page_geometry(page: pdfium.PdfPage) -> PageGeometry:
    left, bottom, right, top = page.get_bbox()
    return PageGeometry(left, bottom, right, top, page.get_rotation())


def extract_words(textpage: pdfium.PdfTextPage, geometry: PageGeometry) -> PageWords:
    """Raises PageTooLarge."""
    count = textpage.count_chars()
    if count > MAX_CHARACTERS:
        raise PageTooLarge(f"{count} characters on one page")
    text = _page_text(textpage, count)
    lines = [tokens for tokens in map(_tokenizer(text), _lines(text)) if tokens]
    glyphs = _Glyphs(textpage, geometry, text)
    starts, boxes = glyphs.places([token for tokens in lines for token in tokens])
    words: list[RawWord] = []
    first = 0
    for tokens in lines:
        end = first + len(tokens)
        words += _line_words(tokens, starts[first:end], boxes[first:end], glyphs)
        first = end
    return PageWords(words, sum(map(len, text.split())), count_unusable(text), is_garbled(text))


def _lines(text: str) -> list[str]:
    """PDFium writes no line break after the mark of a hyphenated line end: the mark itself is the break."""
    if HYPHEN_MARK in text:
        return text.replace(HYPHEN_MARK, f"{HYPHEN_MARK}\n").split("\n")
    return text.split("\n")


def _tokenizer(text: str) -> Callable[[str], list[str]]:
    """What cuts the lines of this page; most pages have nothing but spaces to cut at."""
    return str.split if text.isascii() or not _CUT_ELSEWHERE.search(text) else _TOKENS.findall


def _line_words(
    tokens: Sequence[str], starts: Sequence[int], boxes: Sequence[Rect | None], glyphs: _Glyphs
) -> Iterator[RawWord]:
    # One look at the longest word tells the style of the line: a first character may be a footnote's mark.
    longest = max(tokens, key=len)
    size, bold, turn = glyphs.style(starts[tokens.index(longest)])
    end = -1
    for token, start, box in zip(tokens, starts, boxes, strict=True):
        if not token.isalpha() and (noted := _NOTED.fullmatch(token)) and glyphs.is_raised(start + noted.start(2)):
            word, mark = noted.groups()
            _, (word_box, mark_box) = glyphs.places((word, mark), start)
            parts = (clean_word(word), word_box, start == end), (mark.translate(_RAISED_DIGITS), mark_box, False)
            for text, box, glued in parts:
                if text and box is not None:
                    yield RawWord(text, box, box, size, bold, turn, glued, False)
            end = start + len(token)
            continue
        plain = token.isascii() and token.isalnum()  # most words
        text = token if plain else clean_word(token)
        if text and box is not None:
            is_bold = bold and glyphs.is_bold(start, token)  # the longest word may be the only one that is
            yield RawWord(text, box, box, size, is_bold, turn, start == end, not plain and ends_hyphenated(token))
        end = start + len(token)


def _page_text(textpage: pdfium.PdfTextPage, count: int) -> str:
    """The page's characters, one code point for each of PDFium's, so that indexes agree."""
    buffer = _doubles((count + 3) // 4 + 1)  # of eight bytes each; a character takes four at most
    written = raw.FPDFText_GetText(textpage.raw, 0, count, ctypes.cast(buffer, _USHORTS))
    data = ctypes.string_at(buffer, 2 * max(written - 1, 0))
    text = data.decode("utf-16-le", errors="surrogatepass")
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

    def __init__(self, textpage: pdfium.PdfTextPage, geometry: PageGeometry, text: str) -> None:
        self._handle = textpage.raw
        self._text = text
        self._geometry = geometry
        self._address = ctypes.cast(textpage.raw, _ADDRESS).value or 0
        self._loose = raw.FS_RECTF()
        self._part = (ctypes.c_double * 4)()
        self._font_name = ctypes.create_string_buffer(128)
        self._font_flags = ctypes.c_int()
        self._bold: dict[bytes, bool] = {}

    def places(self, tokens: Sequence[str], end: int = 0) -> tuple[list[int], list[Rect | None]]:
        """Of words in order, from `end` on: where each begins in the page's text, and the smallest box around its ink.

        None is the box of a word of which nothing is visible.
        """
        corners = _doubles(4 * len(tokens))
        page, at, find = self._address, ctypes.addressof(corners), self._text.find
        starts: list[int] = []
        nowhere: list[int] = []
        for token in tokens:
            start = find(token, end)  # only white space stands between
            length = len(token)
            end = start + length
            parts = _count_rects(page, start, length)
            if parts:
                _get_rect(page, 0, at, at + _DOUBLE, at + 2 * _DOUBLE, at + 3 * _DOUBLE)
                if parts > 1:
                    self._widen(corners, 4 * len(starts), parts)
            else:
                nowhere.append(len(starts))
            starts.append(start)
            at += 4 * _DOUBLE
        boxes = self._geometry.visible(self._geometry.shown_all(corners[: 4 * len(tokens)]))
        for index in nowhere:
            boxes[index] = None
        return starts, boxes

    def _widen(self, corners: ctypes.Array[ctypes.c_double], first: int, parts: int) -> None:
        """Makes the rectangle that begins at `first` hold all of those that were counted last."""
        part = self._part
        at = ctypes.addressof(part)
        left, top, right, bottom = corners[first : first + 4]
        for index in range(1, parts):
            _get_rect(self._address, index, at, at + _DOUBLE, at + 2 * _DOUBLE, at + 3 * _DOUBLE)
            other_left, other_top, other_right, other_bottom = part
            left, bottom = min(left, other_left), min(bottom, other_bottom)
            right, top = max(right, other_right), max(top, other_top)
        corners[first : first + 4] = [left, top, right, bottom]

    def style(self, index: int) -> _Style:
        """How the text at a character looks."""
        angle = math.degrees(raw.FPDFText_GetCharAngle(self._handle, index))
        size = 0.0
        if raw.FPDFText_GetLooseCharBox(self._handle, index, self._loose):
            loose = self._loose
            sideways = round(angle / 90) % 2 == 1
            size = loose.right - loose.left if sideways else loose.top - loose.bottom
        return _Style(size, self._is_bold(index), round((self._geometry.rotation + angle) / 90) % 4 * 90)

    def is_raised(self, index: int) -> bool:
        """Whether a character is set smaller and higher than the one before it."""
        heights, bottoms = [], []
        for at in (index - 1, index):
            if not raw.FPDFText_GetLooseCharBox(self._handle, at, self._loose):
                return False
            bottoms.append(self._loose.bottom)
            heights.append(self._loose.top - self._loose.bottom)
        before, height = heights
        return bool(0 < height <= _RAISED_SIZE * before and bottoms[1] - bottoms[0] >= _RAISED_BY * before)

    def is_bold(self, start: int, token: str) -> bool:
        """Of a word in a bold line; signs without letters, such as a bullet, are of any font there."""
        return self._is_bold(start) or not any(map(str.isalnum, token))

    def _is_bold(self, index: int) -> bool:
        written = raw.FPDFText_GetFontInfo(self._handle, index, self._font_name, len(self._font_name), self._font_flags)
        name = self._font_name.value if 0 < written <= len(self._font_name) else b""
        bold = self._bold.get(name)
        if bold is None:
            bold = self._bold[name] = any(sign in name.lower() for sign in _BOLD_NAMES)
        return bold
