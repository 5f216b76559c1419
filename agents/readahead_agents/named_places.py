"""The places that a question names: a page, and documents, by their file names or by enough words of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from readahead_agents.text import words

_PAGE = re.compile(r"\bpages?\s+(\d{1,5}|(?-i:[ivxlc]{1,8}))\b|(?<![\d.])(\d{1,5})\s*(?:쪽|페이지)", re.I)
_PAGES = re.compile(r"\bpages\s+\S+\s*(?:-|–|to|and|,)\s*\S+|쪽\s*(?:부터|에서|과|,)", re.I)
_PAGE_OF = re.compile(
    r"\bpage\s+\w+\s+(?:of|in|from)\s+(?:the\s+|our\s+|this\s+)?(\w+)(?:\s+\w*?(?:say|tell|show)\w*|\W*$)", re.I
)
_FILE = re.compile(r"(?<=[\w)\]])\.pdf\b", re.I)
_SUFFIX = re.compile(r"\.\w{1,5}$")
_HANGUL = re.compile(r"[가-힣]{2,}")
ENOUGH_WORDS = 2
"""Of a file name of more, that stand in a question which names it; one where the question says "page 3 of" it."""


def page_asked(question: str) -> str | None:
    """The one page that a question names, as it is printed."""
    named = {match[1] or match[2] for match in _PAGE.finditer(question)}
    return named.pop() if len(named) == 1 and not _PAGES.search(question) else None


def names_file(question: str) -> bool:
    """Whether a question has a file's name, be there such a file or not."""
    return _FILE.search(question) is not None


def named_files(question: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Those whose whole file name stands in the question.

    Args:
        names: File names by ids of documents.
    """
    asked = question.casefold()
    return tuple(key for key, name in names.items() if _stands_in(name.casefold(), asked))


def named_documents(question: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Those that the question names by file name, else by more words of it than of any other; none where that tells
    all of them alike."""
    if files := named_files(question, names):
        return files
    asked = words(_PAGE.sub(" ", question).replace("_", " "))
    of_page = _PAGE_OF.search(question)
    alone = of_page[1].lower() if of_page is not None else ""
    shared = {key: _words_of(name) & _said(_words_of(name), asked) for key, name in names.items()}
    most = max(map(len, shared.values()), default=0)
    best = tuple(
        key
        for key, said in shared.items()
        if said and len(said) == most and (alone in said or most >= min(ENOUGH_WORDS, len(_words_of(names[key]))))
    )
    return best if len(best) < len(names) or len(names) == 1 else ()


def beside_files(question: str, names: Sequence[str]) -> str:
    """What the question says beside the file names that stand in it."""
    for name in names:
        question = re.sub(re.escape(name), " ", question, flags=re.I)
    return question


def _stands_in(name: str, asked: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", asked) is not None


def _words_of(name: str) -> frozenset[str]:
    return words(re.sub(r"[_\W]+", " ", _SUFFIX.sub("", name)))


def _said(of_name: frozenset[str], asked: frozenset[str]) -> frozenset[str]:
    """The words of a name that are asked for, Korean ones with a particle behind them too."""
    particled = {word for word in of_name if _HANGUL.fullmatch(word) and any(each.startswith(word) for each in asked)}
    return (of_name & asked) | particled
