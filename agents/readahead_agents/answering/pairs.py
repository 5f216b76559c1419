"""Pairs counted up in one sentence ("Dutch in Killjoys, Ornela in Game of Thrones"): what stands in one is not taken
for what stands in another."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Self

from readahead_agents.answering.figures import numbers
from readahead_retrieval.relevance import said_terms

MIN_PAIRS = 2

_BETWEEN = re.compile(r"[,;]\s+(?:(?:and|or|but|while)\s+)?|\s(?:and|while|whereas)\s", re.IGNORECASE)
_LINK = re.compile(
    r"\s(in|at|on|for|as|by|with|of|to|from|is|are|was|were|has|have|costs?|takes?|means?)\s", re.IGNORECASE
)
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of one sentence that the same word links, as what each of them says."""

    said: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """None, where the sentence does not count pairs up."""
        pieces = [piece for piece in _BETWEEN.split(text) if piece.strip()]
        links = Counter(link for piece in pieces for link in {match.group(1) for match in _linking(piece)})
        link, count = max(links.items(), key=lambda each: each[1], default=("", 0))
        if count < MIN_PAIRS:
            return cls(())
        return cls(tuple(_said(piece) for piece in _members(pieces, link)))

    def crosses(self, asked: frozenset[str], told: frozenset[str]) -> bool:
        """Whether what is asked about stands in some of the pairs, and what is told of it in others alone."""
        about, telling = self._holding(asked), self._holding(told)
        return bool(about and telling) and not about & telling

    def _holding(self, terms: frozenset[str]) -> set[int]:
        """The pairs that hold a term which no other pair has."""
        held = Counter(term for said in self.said for term in terms & said)
        return {number for number, said in enumerate(self.said) if any(held[term] == 1 for term in terms & said)}


def told_terms(text: str) -> frozenset[str]:
    """What a text says, its figures included."""
    return _said(text)


def _said(text: str) -> frozenset[str]:
    return said_terms(text) | numbers(text)


def _linking(piece: str) -> list[re.Match[str]]:
    """Its links that have telling words on both sides."""
    return [m for m in _LINK.finditer(piece) if said_terms(piece[: m.start()]) and said_terms(piece[m.end() :])]


def _members(pieces: list[str], link: str) -> list[str]:
    """The pairs' texts. A piece without the link goes on with the pair before it ("Ant-Man and the Wasp"), and what the
    first pair's own words stand behind is said of all ("she is known for her roles as")."""
    members: list[str] = []
    for piece in pieces:
        found = next((match for match in _linking(piece) if match.group(1) == link), None)
        if found is not None:
            members.append(piece if members else _without_subject(piece, found.start()))
        elif members:
            members[-1] += f" {piece}"
    return members


def _without_subject(piece: str, end: int) -> str:
    """From the last telling word before the link, with the names and figures right before it."""
    words = list(_WORD.finditer(piece[:end]))
    first = next((n for n in reversed(range(len(words))) if said_terms(words[n].group())), 0)
    while first > 0 and (words[first - 1].group()[:1].isupper() or words[first - 1].group()[:1].isdigit()):
        first -= 1
    return piece[words[first].start() :] if words else piece
