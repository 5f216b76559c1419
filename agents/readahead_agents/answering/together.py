"""Whether a sentence holds together: a subject from one statement and a predicate from another make a false one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from readahead_agents.answering.assertions import assertions
from readahead_agents.answering.rows import is_row
from readahead_agents.answering.units import Unit
from readahead_retrieval.relevance import said_terms

_CLAUSE = re.compile(r"[,;:–—]|\b(?:and|or|but|while|whereas|which|that|than)\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]{3,}")
_EXCLUSIVE = re.compile(
    r"\b(?:only|solely|exclusively|merely|alone|except|unless|nothing but|no (?:other|one|more))\b|오직|뿐|외에", re.I
)


def mixes(new: frozenset[str], anchors: Sequence[Unit], known: Sequence[Unit]) -> bool:
    """Whether none of the statements that a sentence stands on has all that the passages have of its new words.

    A statement is a sentence with those beside it in its paragraph, or a row, with what stands over it.
    """
    taken = new & frozenset[str]().union(*(unit.said for unit in known))
    return not any(taken <= _said_beside(anchor, known) for anchor in anchors)


def excludes_more(sentence: str, stood: str) -> bool:
    """Whether a clause says "only" where what it stands on leaves nothing out, or leaves it out of something else."""
    leaving, said = [clause for clause in assertions(stood) if _EXCLUSIVE.search(clause)], said_terms(stood)
    return any(
        not any(2 * len(terms & said_terms(other)) >= len(terms) for other in leaving)
        for clause in assertions(sentence)
        if _EXCLUSIVE.search(clause)
        for terms in [said_terms(clause) & said]
    )


def stumbles(sentence: str, stood: str) -> bool:
    """Whether a clause says a word again that what it stands on has once: "30 days after the return of a claim"."""
    held = _counted(stood)
    return any(
        count > 1 and held[term] == 1 for clause in _CLAUSE.split(sentence) for term, count in _counted(clause).items()
    )


def _said_beside(anchor: Unit, known: Sequence[Unit]) -> frozenset[str]:
    return anchor.said | anchor.context | frozenset[str]().union(*(unit.said for unit in _beside(anchor, known)))


def _beside(anchor: Unit, known: Sequence[Unit]) -> Iterator[Unit]:
    """The units before and behind it in the same line: passages have each paragraph on one."""
    if is_row(anchor.text):
        return
    text = anchor.passage.text
    line = [unit for unit in known if unit.rank == anchor.rank and _is_one_line(text, unit, anchor)]
    place = next((number for number, unit in enumerate(line) if unit.start == anchor.start), None)
    if place is not None:
        yield from line[max(0, place - 1) : place + 2]


def _is_one_line(text: str, one: Unit, other: Unit) -> bool:
    return "\n" not in text[min(one.start, other.start) : max(one.end, other.end)]


def _counted(text: str) -> Counter[str]:
    return Counter(term for word in _WORD.findall(text) for term in said_terms(word))
