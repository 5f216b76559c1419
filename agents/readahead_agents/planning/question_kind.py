"""What kind of question it is, by its words: rules for checking a weak model's plan, and for planning without one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from readahead_agents.answering.kinds import asks_value
from readahead_agents.planning.elided import in_full
from readahead_agents.text import words

_SUMMARY = re.compile(r"\b(summar\w+|sum up|overview|gist|main points|key points|tl;?dr|in short)\b|요약|개요", re.I)
_ANALYSIS = re.compile(
    r"\b(analy[sz]\w+|compar\w+|contrast\w*|differ\w*|versus|vs\.?|pros and cons|trade-?offs?|advantages?|"
    r"implications?|evaluat\w+|assess\w*)\b|비교|차이|분석|장단점",
    re.I,
)
_SIDES = (
    re.compile(r"\b(?:differ\w*|contrast\w*|relationship|compar\w+)\b.*?\bbetween\s+(.+?)\s+and\s+(.+)", re.I | re.S),
    # "with those of B" parts surely, wherever an "and" stood before it
    re.compile(
        r"\b(?:compare|contrast)\s+(.+?)\s+(?:and|with|to|against|versus|vs\.?)"
        r"\s+((?:that|those|the ones?)\s+(?:of|in|for|at|from|on|with)\s.+)",
        re.I | re.S,
    ),
    # "up to 10 m" and "with regard to" part nothing
    re.compile(
        r"\b(?:compare|contrast)\s+(.+?)\s+"
        r"(?:and|with(?!\s+re(?:gard|spect))|(?<!up\s)(?<!regard\s)(?<!respect\s)to|against|versus|vs\.?)\s+(.+)",
        re.I | re.S,
    ),
    re.compile(
        r"\bhow\s+(?:does|do|is|are)\s+(.+?)\s+(?:differ|compare|different)\w*\s+(?:from|to|with)\s+(.+)", re.I | re.S
    ),
    re.compile(r"^(?:what is better[,:]?\s+|which is \w+[,:]?\s+)?(.+?)\s+(?:versus|vs\.?)\s+(.+)", re.I | re.S),
    # "which costs more: A or B", with what is compared between
    re.compile(
        r"^which\b[^,:?]*\b(?:better|worse|more|less|fewer|\w+er)\b[^,:?]*[,:]\s*(.+?),?\s+or\s+(.+)", re.I | re.S
    ),
    re.compile(r"\b(?:better|\w+er|more \w+)[,:]?\s+(.+?)\s+or\s+(.+)", re.I | re.S),
    re.compile(r"(.+?)(?:와|과|하고)\s*(.+?)(?:의|를|을)?\s*(?:비교|차이)", re.S),
)
MAX_SIDE_WORDS = 20
MAX_COMPARISON_CHARS = 1_000
"""A longer text is not looked through for sides: the patterns take time with the square of its length."""
_WORD = re.compile(r"\w[\w'’-]*")
_CLAUSE = re.compile(r"(?:wh|how)", re.I)
_LINKS = frozenset({"between", "among", "than"})
_TAIL = re.compile(r"[\s?.!,;:]+$")


def asks_for_summary(question: str) -> bool:
    return _SUMMARY.search(question) is not None


def asks_for_analysis(question: str) -> bool:
    return _ANALYSIS.search(question) is not None


def compared_sides(question: str) -> tuple[str, str] | None:
    """The two things that a question compares; None where it compares nothing, or the words do not tell what."""
    if len(question) > MAX_COMPARISON_CHARS:
        return None
    for pattern in _SIDES:
        if match := pattern.search(question):
            left, right = (_TAIL.sub("", side.strip()) for side in match.groups())
            left, right = in_full(left, right)
            if all(0 < len(side.split()) <= MAX_SIDE_WORDS for side in (left, right)):
                return left, right
    return None


def question_about(side: str, sides: Sequence[str], question: str) -> str:
    """One side of a comparison as a question of its own, with what the two are compared in."""
    inside = words(" ".join(sides))
    rest = [word for word in _WORD.findall(question) if words(word) - inside - _LINKS and not _ANALYSIS.search(word)]
    is_value = asks_value(f"What is {side}") and not _CLAUSE.match(side)
    asked = f"What is {side}" if is_value else f"What about {side}"
    return f"{asked} ({' '.join(rest)})?" if rest else f"{asked}?"
