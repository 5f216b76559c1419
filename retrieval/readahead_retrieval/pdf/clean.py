"""Turns what PDFium returns into text that can be stored, searched and compared.

Runs before offsets are computed, on one word at a time, so that no offset ever has to be mended afterwards.
"""

from __future__ import annotations

import re
import unicodedata

HYPHEN_MARK = "\ufffe"
"""PDFium's sign for a hyphen at the end of a line."""

SOFT_HYPHEN = "\u00ad"
_SYMBOL_BULLETS = dict.fromkeys("\uf0b7\uf0a7\uf0d8\uf0fc\uf076\uf0a8\uf06e", "•")

# Controls, lone surrogates, noncharacters, private use, and what has no width and no meaning in running text.
_REMOVED = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200b\u2060-\u2064\ufeff\ufff9-\uffff\ud800-\udfff\ufdd0-\ufdef"
    "\ue000-\uf8ff\U000f0000-\U0010ffff]"
)
# Ligatures and the Arabic and half-width presentation forms: shapes of letters, not letters.
_SHAPES = re.compile("[\ufb00-\ufdcf\ufdf0-\ufdff\ufe70-\ufefe\uff61-\uffdc]+")
_SPACES = re.compile(r"\s+")
_LEADERS = re.compile(r"([.·…_=~*–—-])\1{3,}")  # dots that lead the eye to a page number
_NUMBERING = re.compile(r"^[\d.\s]+(?=\D)")
# ASCII, whole accented letters, quotation marks and dashes, kana, ideographs and Korean syllables: nothing to clean.
_PLAIN = re.compile("[\x21-\x7e\u00c0-\u017f\u2013-\u201d\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]*\\Z")


def clean_word(raw: str) -> str:
    """A word as it can be stored: NFC, letters instead of shapes, nothing invisible. May be empty.

    Marks of hyphenation stay out of the result: see `ends_hyphenated`.
    """
    if raw.isascii() and raw.isalnum():
        return raw  # most words
    if len(raw) > 3:
        raw = _LEADERS.sub(r"\1\1\1", raw)
    if _PLAIN.match(raw):
        return raw
    text = raw.translate(_TRANSLATION)
    text = _SHAPES.sub(lambda found: unicodedata.normalize("NFKC", found.group()), text)
    text = unicodedata.normalize("NFC", _REMOVED.sub("", text))
    return _SPACES.sub(" ", text).strip()


def clean_line(raw: str) -> str:
    """Any one-line text (a title, a label, a file name), cleaned like the words of a page."""
    return " ".join(filter(None, (clean_word(word) for word in raw.split())))


def title_key(text: str) -> str:
    """What a title and its line on the page have in common: letters and digits, without the numbering before them."""
    return "".join(filter(str.isalnum, _NUMBERING.sub("", text))).casefold()


def ends_hyphenated(raw: str) -> bool:
    """Whether the word, as PDFium returned it, was broken at the end of its line."""
    return raw.endswith((HYPHEN_MARK, SOFT_HYPHEN)) and len(raw) > 1


def keeps_hyphen(first: str, second: str) -> bool:
    """Whether the hyphen between the two parts of a broken word belongs to it.

    "inter-" + "national" loses it; "COVID-" + "19", "Kobe-" + "Osaka" and "state-of-the-" + "art" keep it.
    """
    return not (first[-1:].isalpha() and second[:1].islower()) or "-" in first.rstrip("-")


def count_unusable(raw: str) -> int:
    """Characters that mean nothing: controls, private use, replacement characters, glyph names for text."""
    glyph_names = sum(len(name) for name in _GLYPH_NAMES.findall(raw)) if "(cid:" in raw or "/" in raw else 0
    return glyph_names + len(_UNUSABLE.findall(raw))


_TRANSLATION = str.maketrans(_SYMBOL_BULLETS)
_UNUSABLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x9f\ufffd\ud800-\udfff\ue000-\uf0ff\uf100-\uf8ff]")
_GLYPH_NAMES = re.compile(r"\(cid:\d+\)|/g\d+|/G[0-9A-F]{2}\b")
