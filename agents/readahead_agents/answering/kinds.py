"""The kind of thing that a question asks for, and whether a text has any of it: by the words and the shapes, in English
and, of figures, in Korean.

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

_ASKS_COUNTED = re.compile(r"몇\s?((?![시분])[가-힣])")
_ASKS_PRICE = re.compile(r"(?:료|비|값|가격|요금|금액|벌금|세금|삯)(?:[은는이가]|\s)*얼마")
_ASKS_TIME = re.compile(r"언제|몇\s?[시분]")

_NUMERAL = r"(?:\d|[한두세네섯곱덟홉열무른흔쉰순일이삼사오육칠팔구십백천만억])"
_PRICE = re.compile(
    rf"{_NUMERAL}\s?(?:원|달러|유로|엔|파운드)(?![가-힣])|{_NUMERAL}\s?원(?:이|을|은|의|으로|에|씩|까지|입)|무료"
)
_TIME = re.compile(
    r"\d:\d\d|\d\s?(?:시|분|초|일|월|년|세기)|[가-힣]요일|[첫둘셋넷]째|(?:평일|주말|휴일|매일|매월|매년|해마다|아침|오전|오후|저녁|밤|자정|정오|봄|여름|가을"
    r"|겨울|날|때|동안|뒤|후|전)(?![가-힣]{2})|까지|부터"
)
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
    if (shape := _korean_shape(question)) not in (None, _TIME):  # whatever is told of a day has a time's shape
        return _having(shape, LACKS_VALUE if shape is _PRICE else LACKS_KIND)
    shapes = ((_ASKS_DATE, _DATE), (_ASKS_WHERE, _PLACE), (_ASKS_COUNT, _COUNT))
    shape = next((held for asked, held in shapes if asked.search(question)), None)
    return None if shape is None else _having(shape, LACKS_KIND)


def _having(shape: re.Pattern[str], lacking: float) -> Kind:
    return Kind(lambda text: shape.search(text) is not None, lacking)


def tells_another_figure(question: str, text: str) -> bool:
    """Whether a Korean question asks for a count, a price or a time, and a text has figures and none of that."""
    shape = _korean_shape(question)
    return shape is not None and any(map(str.isdigit, text)) and shape.search(text) is None


def _korean_shape(question: str) -> re.Pattern[str] | None:
    if (counted := _ASKS_COUNTED.search(question)) is not None:
        return re.compile(rf"{_NUMERAL}\s?{counted.group(1)}")
    shapes = ((_ASKS_PRICE, _PRICE), (_ASKS_TIME, _TIME))
    return next((shape for asked, shape in shapes if asked.search(question)), None)


def asks_value(question: str) -> bool:
    """Whether it asks for the value of a measure: "what is the span"."""
    return _ASKS_VALUE.search(question) is not None


def _holds_value(text: str) -> bool:
    """The unit of a row may stand in its header."""
    return _VALUE.search(text) is not None or (is_row(text) and any(map(str.isdigit, text)))


def _names_another(text: str, question: str) -> bool:
    return any(name.group() not in question for name in _NAME.finditer(text))
