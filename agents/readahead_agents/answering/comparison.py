"""What each side of a comparison says: the statements that tell one side from the others, and that can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from readahead_agents.answering.kinds import Kind, asked_kind
from readahead_agents.answering.statements import NOT_COMPARED, Near, Statement, ranked
from readahead_agents.answering.units import Unit
from readahead_retrieval.index.analysis import COMMON
from readahead_retrieval.relevance import key_terms, said_terms
from readahead_retrieval.types import Evidence

STATEMENTS = 3
"""Of one side, at most: what is shown of it to a model."""
SIDE_CHARS = 600
LOOKED_AT = 12
"""Statements of one side that are weighed."""
OWN_NAME = 1.0
"""What it adds to a statement's worth to hold the words that only this side has, the "A" of "zone A"."""
ALIKE = 0.5
"""What it adds to be about what a statement of another side is about."""
MEASURED = 2.0
"""Factor for statements that give what is asked for or, where the words tell no kind, a figure of something: what is
compared are values."""
PARTIAL = 0.5
"""Factor for titles and headings, which name things and say nothing of them, and for pieces of sentences."""
MIN_WORTH = 0.5
"""Of the best statement's worth, that another one must have."""

_WORD = re.compile(r"\w+")
# neither an initial nor a dot behind dots ends a sentence
_ENDED = re.compile(r"(?<![\s.])(?<!\b[A-Z])[.!?。！？:;][\"'”’)\]]*$")
_MEASURE = re.compile(r"\d\s?([^\W\d_]+|[°%€$£])")
_TIME = re.compile(r"(?:second|minute|hour|day|week|month|year)s?")
"""Units of one measure: a term of 36 months is compared with one of 30 days."""
_NUMBERING = re.compile(r"^\s*\d+(?:\.\d+)*\.?\s+(?=[A-Z])", re.MULTILINE)
# the first word of a sentence, not the name of a zone
_ARTICLE = re.compile(r"\bA(?=\s+[a-z])")
_CELL = "|"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things compared: its name, the question on it, and what that found."""

    name: str
    question: str
    evidence: tuple[Evidence, ...]
    near: Near = NOT_COMPARED


@dataclass(frozen=True, slots=True)
class Told:
    """What the documents tell of one side."""

    passages: tuple[Evidence, ...]
    """Cut to the side's best statements, in their order."""
    best: Unit
    """The statement that tells most; of the passage as it was found."""


def told_of(sides: Sequence[Side]) -> list[Told]:
    """What is told of each side, for sides with evidence.

    A statement counts by how it answers the side's question; more where it has the words that tell the side from the
    others, and where it is about what the others' statements are about, as figures of one measure are.
    """
    known = [list(islice(ranked(side.question, _own(side, sides), side.near), LOOKED_AT)) for side in sides]
    chosen = [_chosen(side, number, sides, known) for number, side in enumerate(sides)]
    return [Told(_cut(statements), statements[0].unit) for statements in chosen]


def _own(side: Side, sides: Sequence[Side]) -> tuple[Evidence, ...]:
    """Of the documents that the side names, where it names any: what other documents say of it is hearsay."""
    named = [passage for passage in side.evidence if _names(side, passage, sides)]
    return tuple(named) or side.evidence


def _names(side: Side, passage: Evidence, sides: Sequence[Side]) -> bool:
    """Whether the document's name holds most of the side's own words, and none of the other sides' own."""
    title = said_terms(passage.document)
    own = key_terms(side.name)
    others = frozenset[str]().union(*(key_terms(other.name) for other in sides if other is not side)) - own
    return 2 * len(own & title) > len(own) and not others & title


def _chosen(side: Side, number: int, sides: Sequence[Side], known: Sequence[list[Statement]]) -> list[Statement]:
    others = [statement for other in (*known[:number], *known[number + 1 :]) for statement in other]
    apart, foreign = _apart(side, sides), [_apart(other, sides) for other in sides if other is not side]
    own = [each for each in known[number] if not _is_of_another(each, apart, foreign)] or known[number]
    kind = asked_kind(side.question)
    worth = {id(each): _worth(each, apart, others, kind) for each in own}
    best = sorted(own, key=lambda each: -worth[id(each)])[:STATEMENTS]
    return list(_fitting([each for each in best if worth[id(each)] >= MIN_WORTH * worth[id(best[0])]]))


def _worth(statement: Statement, apart: frozenset[str], others: Sequence[Statement], kind: Kind | None) -> float:
    text = statement.unit.text
    own = len(apart & _held(statement)) / len(apart) if apart else 0.0
    alike = max((_alike(statement, other) for other in others), default=0.0)
    gives = kind.holds(text) if kind is not None else _gives_a_figure(statement)
    shape = (1.0 if _is_whole(text.strip()) else PARTIAL) * (MEASURED if gives else 1.0)
    return statement.score * (1 + OWN_NAME * own + ALIKE * alike) * shape


def _gives_a_figure(statement: Statement) -> bool:
    """Whether it tells so many of something; the unit of a row may stand in its header."""
    text = statement.unit.text
    return bool(_measures(statement)) or (_CELL in text and any(map(str.isdigit, text)))


def _is_whole(text: str) -> bool:
    """Whether it is a row, or begins and ends as sentences do."""
    return _CELL in text or (not text[:1].islower() and _ENDED.search(text) is not None)


def _is_of_another(statement: Statement, apart: frozenset[str], foreign: Sequence[frozenset[str]]) -> bool:
    """Whether it has words that only another side has, and none that only this one has: the row of zone B."""
    held = _held(statement)
    return not held & apart and any(held & words for words in foreign)


def _held(statement: Statement) -> frozenset[str]:
    text = statement.unit.text
    return frozenset(_WORD.findall(_ARTICLE.sub("", text))) | frozenset(_WORD.findall(text.lower()))


def _apart(side: Side, sides: Sequence[Side]) -> frozenset[str]:
    """The words that no other side has; single letters count as they are written, for "a" is in every text."""
    others = {word for other in sides if other is not side for word in _words(other.name)}
    return frozenset(_words(side.name)) - others


def _words(name: str) -> Iterator[str]:
    for word in _WORD.findall(name):
        if len(word) == 1 and word.isupper():
            yield word
        elif said_terms(word):
            yield word.lower()


def _alike(one: Statement, other: Statement) -> float:
    """Share of what the shorter says that the longer says too; more where both give figures of one measure."""
    said, others = one.unit.said, other.unit.said
    shared = len(said & others) / max(1, min(len(said), len(others)))
    return shared + (1.0 if _measures(one) & _measures(other) else 0.0)


def _measures(statement: Statement) -> frozenset[str]:
    """What its figures count: units, and words that tell something. Names behind a number are no units."""
    text = _NUMBERING.sub("", statement.unit.text)
    found = frozenset(unit for unit in _MEASURE.findall(text) if len(unit) <= 2 or unit.islower())
    telling = frozenset(unit for unit in found if not unit.isalpha() or len(unit) <= 2 or said_terms(unit)) - COMMON
    return frozenset("time" if _TIME.fullmatch(unit) else unit for unit in telling)


def _fitting(statements: Sequence[Statement]) -> Iterator[Statement]:
    """The best always, and of the others what there is room for, each once."""
    left, said = SIDE_CHARS, set[str]()
    for statement in statements:
        text = statement.unit.text
        left -= len(text)
        if said and left < 0:
            return
        if text not in said:  # passages overlap
            said.add(text)
            yield statement


def _cut(statements: Sequence[Statement]) -> tuple[Evidence, ...]:
    """The passages with nothing but these statements; rows keep the header of their table."""
    texts: dict[int, tuple[Evidence, list[str]]] = {}
    for statement in sorted(statements, key=lambda each: (each.rank, each.start)):
        _, lines = texts.setdefault(statement.unit.passage.chunk_id, (statement.unit.passage, []))
        header = statement.unit.header
        lines += [header] if header and header not in lines else []
        lines.append(statement.unit.text)
    return tuple(replace(passage, text="\n".join(lines)) for passage, lines in texts.values())
