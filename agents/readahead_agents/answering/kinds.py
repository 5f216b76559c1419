"""The kind of thing that a question asks for, and whether a text has any of it: English, by the words and the shapes.

A rule of thumb for ranking (the expected answer type of question answering, Voorhees 2001), never a reason to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from readahead_agents.answering.rows import is_row

LACKS_KIND = 0.8
"""What a statement counts that has nothing of the kind."""
LACKS_VALUE = 0.4
"""And where a value of a measure is asked for, which a statement without any cannot tell: titles name the thing."""

_MEASURES = (
    "age|altitude|amount|area|budget|capacity|cost|depth|diameter|distance|duration|fee|fine|frequency|height|length|"
    "limit|mass|number|percentage|population|power|pressure|price|radius|rate|rating|salary|score|share|size|span|"
    "speed|temperature|thickness|torque|voltage|volume|weight|width"
)
_ASKS_VALUE = re.compile(
    rf"\b(?:what|which)(?:['’]s| is| was| are| were)?\s+(?:the\s+)?(?:[\w’'-]+\s+){{0,3}}?(?:{_MEASURES})s?\b|"
    r"\bwhat (?:do|does|did)\b.*\b(?:cost|pay|weigh|measure|earn|charge)\b",
    re.IGNORECASE,
)
_ASKS_DATE = re.compile(r"\bwhen\b|\b(?<!up to )(?<!-to-)dates?\b|\b(?:what|which) (?:year|day|month)\b", re.IGNORECASE)
_ASKS_WHO = re.compile(r"^\W*(?:who|whom|whose)\b|\bby whom\b", re.IGNORECASE)
_ASKS_WHERE = re.compile(r"^\W*where\b", re.IGNORECASE)
_ASKS_COUNT = re.compile(r"\bhow (?:many|much)\b", re.IGNORECASE)

_NO_UNIT = "and|or|to|of|in|by|the|for|with|at|on|from|is|was|were|are"
_VALUE = re.compile(
    rf"(?<![\w.])\d[\d.,]*\s?(?!(?:{_NO_UNIT})\b)(?:[%°€$£]|[a-zµ]{{1,12}}\b|[km]?[A-ZΩ]{{1,2}}\b)|[€$£]\s?\d"
)
_DATE = re.compile(
    r"\b(?:1\d|20)\d\d\b|\d{1,2}:\d\d|\b\d{1,2}(?:st|nd|rd|th)?\s+century|"
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
)
_NAME = re.compile(r"\b[A-Z][\w’'-]+(?: [A-Z]\.)* [A-Z][\w’'-]+")
_PLACE = re.compile(r"\b(?:in|at|near|from|to|on|between|north|south|east|west|located)\s+(?:the\s+)?[A-Z]")
_COUNT = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|none)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Kind:
    """What an answer must have some of."""

    holds: Callable[[str], bool]
    lacking: float
    """What a statement counts that has none."""

    def weight(self, text: str) -> float:
        return 1.0 if self.holds(text) else self.lacking


def asked_kind(question: str) -> Kind | None:
    """None where the question's words tell no kind."""
    if asks_value(question):
        return Kind(_holds_value, LACKS_VALUE)
    if _ASKS_WHO.search(question):
        return Kind(lambda text: _names_another(text, question), LACKS_KIND)
    shapes = ((_ASKS_DATE, _DATE), (_ASKS_WHERE, _PLACE), (_ASKS_COUNT, _COUNT))
    shape = next((held for asked, held in shapes if asked.search(question)), None)
    return None if shape is None else Kind(lambda text: shape.search(text) is not None, LACKS_KIND)


def asks_value(question: str) -> bool:
    """Whether it asks for the value of a measure: "what is the span"."""
    return _ASKS_VALUE.search(question) is not None


def _holds_value(text: str) -> bool:
    """The unit of a row may stand in its header."""
    return _VALUE.search(text) is not None or (is_row(text) and any(map(str.isdigit, text)))


def _names_another(text: str, question: str) -> bool:
    return any(name.group() not in question for name in _NAME.finditer(text))
