"""Whether extracted letters can be text: a font with a wrong character mapping yields letters that no language has.

Judged by what holds for every language of a script, never by a dictionary. Deliberately lenient: a page of source
code, formulas or part numbers is text.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

SAMPLE_CHARACTERS = 3_000
MIN_WORDS = 30
"""Fewer say nothing."""

MAX_WITHOUT_VOWEL = 0.12
"""Share of words of four letters and more; it is below 2% in languages written in Latin letters, 5% in source code."""
MIN_VOWELS = 0.28
"""Share of vowels among letters; about a third is the least that a language has."""
MAX_HIGH_LATIN = 0.4
"""Share of the letters from À to ÿ: bytes of another encoding, such as Korean, taken for Latin ones."""
MAX_MIXED = 0.25
"""Share of words that mix alphabets."""

# Words in capitals are left out: they may be abbreviations or part numbers.
_WORD = re.compile(r"(?<![A-Za-z])[A-Za-z][a-z]{3,}(?![A-Za-z])")
_WITHOUT_VOWEL = re.compile(r"(?<![A-Za-z])[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ][b-df-hj-np-tv-xz]{3,}(?![A-Za-z])")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())
_NO_VOWELS = bytes(code for code in range(128) if chr(code) not in "aeiouyAEIOUY")
_ACCENT = re.compile("[\u0300-\u036f]")
_HIGH_LATIN = re.compile("[\u00a1-\u00ff]")
_ANY_LETTER = re.compile(r"[^\W\d_]")
_FOREIGN_WORD = re.compile(r"[^\W\d_]{3,}")
# From Greek to Georgian; Latin letters beside Korean, Chinese or Japanese ones are no sign of anything.
_MIXED_ALPHABETS = re.compile("[\u0370-\u10ff]")
_ALPHABETS = frozenset({"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "HEBREW", "ARABIC", "DEVANAGARI", "THAI", "GEORGIAN"})


def is_garbled(text: str) -> bool:
    """Whether a page's text, as extracted, is letters without a meaning."""
    sample = text[:SAMPLE_CHARACTERS]
    ascii_part = sample.encode("ascii", "ignore")
    ascii_letters = len(ascii_part.translate(None, _NO_LETTERS))
    if len(ascii_part) < len(sample):
        others = "".join(_NOT_ASCII.findall(sample))
        letters = ascii_letters + len(_ANY_LETTER.findall(others))
        if _is_mojibake(others, letters) or _mixes_alphabets(sample, others):
            return True
        # In a text of another script, abbreviations are all the Latin letters that there are.
        if 2 * ascii_letters < letters:
            return False
        ascii_part += unicodedata.normalize("NFD", others).encode("ascii", "ignore")
    if _has_vowels(ascii_part):  # first, because nearly every page has
        return False
    plain = _ACCENT.sub("", unicodedata.normalize("NFD", sample))
    words = len(_WORD.findall(plain))
    return words >= MIN_WORDS and len(_WITHOUT_VOWEL.findall(plain)) >= MAX_WITHOUT_VOWEL * words


def _has_vowels(letters: bytes) -> bool:
    """As many as a language has."""
    return len(letters.translate(None, _NO_VOWELS)) >= MIN_VOWELS * len(letters.translate(None, _NO_LETTERS))


def _is_mojibake(others: str, letters: int) -> bool:
    return letters >= 4 * MIN_WORDS and len(_HIGH_LATIN.findall(others)) > MAX_HIGH_LATIN * letters


def _mixes_alphabets(sample: str, others: str) -> bool:
    if not _MIXED_ALPHABETS.search(others):
        return False
    words = [word for word in _FOREIGN_WORD.findall(sample) if not word.isascii()]
    if len(words) < MIN_WORDS:
        return False
    mixed = sum(len({_alphabet(letter) for letter in word} & _ALPHABETS) > 1 for word in words)
    return mixed > MAX_MIXED * len(words)


@lru_cache(maxsize=4096)
def _alphabet(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
