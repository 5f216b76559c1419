"""Text to terms: the one analysis for passages, queries and citations.

Words are runs of letters and digits; a number keeps its decimal point and loses its thousands separators. Scripts
written without spaces, and Korean, whose particles cling to the noun, become overlapping bigrams: "연차휴가는" holds
"휴가" whatever follows it (the usual CJK bigram analysis, as Lucene's CJKAnalyzer does it). The number of an article or
a chapter is one term with its signs ("제12조", "第3条"): by its parts it is as common as the numbers of pages.
"""

from __future__ import annotations

import re
import unicodedata

VERSION = 3
"""Written into the manifest: an index is read with the analysis that made it. Counts the lexical index's own too."""

_CJK = "ᄀ-ᇿ぀-ヿ㐀-䶿一-鿿가-힣豈-﫿"
_LABEL = r"[제第]\s?\d{1,4}\s?[조장절항호편条章節項号編]"
_LABEL_TOKEN = re.compile(_LABEL)
_TOKEN = re.compile(rf"{_LABEL}|\d+(?:[.,]\d+)+|[{_CJK}]+|[^\W_{_CJK}]+")
_CJK_RUN = re.compile(rf"[{_CJK}]+")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b")


def terms(text: str) -> list[str]:
    """The terms of a text in order, repeats kept."""
    folded = _POSSESSIVE.sub("", unicodedata.normalize("NFKC", text).casefold())
    found: list[str] = []
    for token in _TOKEN.findall(folded):
        if _LABEL_TOKEN.fullmatch(token):
            found.extend(("".join(token.split()), "".join(filter(str.isdigit, token))))
        elif _CJK_RUN.fullmatch(token):
            found.extend(_bigrams(token))
        else:
            found.append(_normal_form(token))
    return found


def query_terms(query: str) -> list[str]:
    """The terms worth searching, each once: in a small knowledge base "what" may be rare, and is no less empty."""
    unique = list(dict.fromkeys(terms(query)))
    return [term for term in unique if term not in COMMON] or unique


def is_number(term: str) -> bool:
    return bool(_NUMBER.fullmatch(term))


def _bigrams(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def _normal_form(token: str) -> str:
    if token[0].isdigit() and not token.isalnum():
        return token.replace(",", "") if _THOUSANDS.fullmatch(token) else token
    return _singular(token)


def _singular(word: str) -> str:
    """Harman's S-stemmer (1991): English plurals only, and nothing that a reader would take for another word."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("us", "ss", "is")):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    return word[:-1]


COMMON = frozenset(
    terms(
        "a an and are as at be been but by can could did do does for from had has have he her his how i if in into is "
        "it its may me more most must my no not of on or our shall she should so such than that the their them then "
        "there these they this those to was we were what when where which who whom whose why will with would you your"
    )
)
"""English words that say nothing of what a text is about."""
