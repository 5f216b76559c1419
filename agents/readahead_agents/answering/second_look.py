"""A look at single statements, before a question is refused: a passage on many things is near to none of them."""

from __future__ import annotations

from collections.abc import Sequence

from readahead_agents.answering.units import units
from readahead_agents.evidence import EvidenceSource
from readahead_retrieval.relevance import key_terms
from readahead_retrieval.types import Evidence

NEAR = 0.55
"""Cosine of a statement that says in other words what is asked ("is alcohol reimbursed", "drinks are not paid"). On
XQuAD (240 questions) 2 of 5 that were refused wrongly have such a statement, and 3 of 72 refused rightly."""
LOOKED_AT = 32
"""Statements that are compared, of the best passages."""


async def is_covered(source: EvidenceSource, question: str, evidence: Sequence[Evidence]) -> bool:
    """Whether the evidence bears on the question, as a whole or by one statement of it.

    Statements are compared in English alone: an English embedding model finds all of another language near to all.
    """
    if source.covers(question, evidence):
        return True
    if not evidence or not all(map(str.isascii, key_terms(question))):
        return False
    statements = [unit.readable for unit in units(evidence)[:LOOKED_AT]]
    return max(await source.nearness(question, statements)) >= NEAR
