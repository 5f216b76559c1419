"""What a sentence denies: of a fact, or, as a refusal, that the passages answer at all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from readahead_agents.answering.assertions import assertions
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
_FORBIDS = re.compile(
    r"\b(?:refus\w*|forbid\w*|forbidden|prohibit\w*|lack\w*|fail\w*|un\w+ed)\b|금지|아니", re.IGNORECASE
)
_EXCEPTS = re.compile(r"\b(?:only|except)\b|오직|뿐|외에", re.IGNORECASE)
_LEAVES_OUT = re.compile(r"\b(?:only|except|unless|until|before|but for|(?:other|more) than)\b|오직|뿐|외에", re.I)
_COUNTED = re.compile(r"\bonly (?:an?|one|two|three|few|\d+)\b", re.IGNORECASE)
_LIMITS = re.compile(r"\b(?:only|ever|also|even|still|just)\b", re.IGNORECASE)
"""Say of no clause what it is about."""
MIN_SHARED = 0.6
"""Of the shorter of two clauses, to say the same."""


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
    """Whether each clause denies where the clause of the quotation that it repeats denies, and nowhere else.

    One that is denied in other words ("dogs are forbidden", "only until noon") agrees with a denial.
    """
    if denies(sentence) and not denies(quote):
        return _denies_in_other_words(quote)
    said = assertions(quote)
    affirms = denies(quote) and not denies(sentence) and _repeats_most(sentence, quote)
    if affirms and not _agrees(denying=quote, affirming=sentence):
        return False
    return not any(_opposes(clause, said) for clause in assertions(sentence))


def _opposes(clause: str, said: Sequence[str]) -> bool:
    """Whether what it repeats best among the clauses of a quotation says the opposite."""
    terms = _about(clause)
    alike = max((len(terms & _about(each)) for each in said if denies(each) is denies(clause)), default=0)
    opposed = [each for each in said if denies(each) is not denies(clause) and not _agree(clause, each)]
    return any(
        len(terms & other) > alike and len(terms & other) >= MIN_SHARED * min(len(terms), len(other))
        for other in map(_about, opposed)
    )


def _agree(clause: str, quoted: str) -> bool:
    """Of a clause and a quoted one, one of which denies."""
    return _denies_in_other_words(quoted) if denies(clause) else _agrees(denying=quoted, affirming=clause)


def _agrees(*, denying: str, affirming: str) -> bool:
    """Whether a sentence may say without a "not" what a quotation denies: "only until noon" where it says "not after",
    if the quotation leaves something out too."""
    if _FORBIDS.search(affirming):
        return True
    return _EXCEPTS.search(affirming) is not None and _LEAVES_OUT.search(denying) is not None


def _denies_in_other_words(quote: str) -> bool:
    return _FORBIDS.search(quote) is not None or _EXCEPTS.search(_COUNTED.sub("", quote)) is not None


def _about(clause: str) -> frozenset[str]:
    return said_terms(_LIMITS.sub(" ", clause))


def _repeats_most(sentence: str, quote: str) -> bool:
    said = said_terms(quote)
    return len(said & said_terms(sentence)) >= MIN_SHARED * len(said)
