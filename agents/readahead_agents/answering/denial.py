"""What a sentence denies: of a fact, or, as a refusal, that the passages answer at all."""

from __future__ import annotations

import re

from readahead_retrieval.relevance import key_terms, said_terms

MAX_DECLINE_CHARS = 200
MAX_BARE_DECLINE_CHARS = 60

_DECLINES = re.compile(
    r"\bnot in the (?:documents|passages|text)\b|"
    r"\b(?:not|n't|no)\b.{0,40}\b(?:mention|stat|specif|provid|contain|inform|answer|say|cover)|"
    r"(?:언급|나와|나오|명시|포함|기재|설명|제공|정보)\S{0,4}\s?(?:\S{1,4}\s)?(?:없|않)|알\s?수\s?없|모릅니다|모르겠",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|unless)\b|n['’]t\b|없|않|못", re.I
)
_EXCEPTION = re.compile(
    r"\b(?:only|except|refus\w*|forbid\w*|forbidden|prohibit\w*|lack\w*|fail\w*|un\w+ed)\b|금지|아니", re.I
)


def declines(answer: str) -> bool:
    """Whether the model itself says that the passages do not answer; such a sentence needs no support."""
    return len(answer) <= MAX_DECLINE_CHARS and _DECLINES.search(answer) is not None


def is_about(declined: str, question: str) -> bool:
    """Whether a refusal is one of this question: short, or with a word of it. Small models refuse what nobody asked."""
    return len(declined) <= MAX_BARE_DECLINE_CHARS or bool(said_terms(declined) & key_terms(question))


def denies(sentence: str) -> bool:
    """Whether it says that something is not so."""
    return _NEGATION.search(sentence) is not None


def denies_alike(sentence: str, quote: str) -> bool:
    """A sentence that denies needs a quotation that denies; and one that repeats most of a denial must deny too."""
    if denies(sentence) == denies(quote) or (denies(sentence) and _EXCEPTION.search(quote)):
        return True
    if denies(sentence):
        return False
    said = said_terms(quote)
    return len(said & said_terms(sentence)) < 0.6 * len(said) or _EXCEPTION.search(sentence) is not None
