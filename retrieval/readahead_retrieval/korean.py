"""Korean words by their stems: "쓰려면" and "쓸" are forms of one verb, and share no pair of syllables.

A few rules of conjugation, no dictionary: endings that only verbs and adjectives have give a stem, and a stem's forms
are told by their letters: a last consonant that fuses with the stem ("쓸", "쓴"), a vowel that contracts with it ("써",
"빌려"), and the stem's own ㄹ that falls out ("열다", "연다"). Syllables are taken apart as Unicode lays them out (The
Unicode Standard, 3.12, "Conjoining Jamo Behavior").
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[가-힣]+")
_VERB = re.compile(r"([가-힣]{1,3}?)(?:으?려면|으?려고|으면|[아어여](?:야|서|도|요)|지만|는지|은지)(?:요|은|는|만)?")
_AFTER_STEM = frozenset("아어여은는을으지고기던게거네습면며려도자나니")
"""What begins an ending; "쓰레기" is no form of "쓰다"."""
_AFTER_FUSED = frozenset("다까지데니수")
_CONTRACTED = {0: 0, 1: 1, 4: 4, 5: 5, 6: 6, 8: 9, 13: 14, 18: 4, 20: 6}
"""The vowel of a stem, and what it becomes with 아 or 어 behind it, by their numbers in a syllable."""
_N, _L, _M, _B, _SS = 4, 8, 16, 17, 20
"""ㄴ, ㄹ, ㅁ, ㅂ and ㅆ as last consonants, by their numbers in a syllable."""
_FIRST, _LAST_CONSONANTS = 0xAC00, 28


def verb_stems(text: str) -> dict[str, str]:
    """The words of a text that are surely forms of a verb or an adjective, with their stems."""
    matches = ((word, _VERB.fullmatch(word)) for word in _WORD.findall(text))
    return {word: match.group(1) for word, match in matches if match is not None}


def inflected(stem: str, text: str) -> bool:
    """Whether a text holds a form of the stem."""
    return any(_is_form(word, stem) for word in _WORD.findall(text) if word[: len(stem) - 1] == stem[:-1])


def _is_form(word: str, stem: str) -> bool:
    word = word[len(stem) - 1 :]
    first, after = word[:1], word[1:2]
    if first == stem[-1]:
        return after in _AFTER_STEM
    if first in _fused(stem[-1]):
        return not after or after in _AFTER_FUSED
    return first in _contracted(stem[-1])


def _fused(syllable: str) -> list[str]:
    onset, vowel, last = _letters(syllable)
    if last == 0:
        return [_syllable(onset, vowel, consonant) for consonant in (_N, _L, _M, _B)]
    return [_syllable(onset, vowel, consonant) for consonant in (_N, _B)] if last == _L else []


def _contracted(syllable: str) -> list[str]:
    onset, vowel, last = _letters(syllable)
    if last != 0 or vowel not in _CONTRACTED:
        return []
    return [_syllable(onset, _CONTRACTED[vowel], consonant) for consonant in (0, _SS)]


def _letters(syllable: str) -> tuple[int, int, int]:
    """Onset, vowel and last consonant; 0 for none."""
    rest, last = divmod(ord(syllable) - _FIRST, _LAST_CONSONANTS)
    return rest // 21, rest % 21, last


def _syllable(onset: int, vowel: int, last: int) -> str:
    return chr(_FIRST + (onset * 21 + vowel) * _LAST_CONSONANTS + last)
