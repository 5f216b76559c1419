"""The action that compares: each side is searched for by itself, and all are cited."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import ActionContext, answered_of, merge_evidence, result_of, write
from readahead_agents.planning.question_kind import question_about
from readahead_agents.planning.sides import Side, with_all_sides


async def compare(context: ActionContext, question: str, sides: Sequence[str]) -> ActionResult:
    """Compares two sides or more, and says which of them the documents do not tell of."""
    named = list(dict.fromkeys(sides))
    asked = [question_about(side, tuple(named), question) for side in named]
    found = await asyncio.gather(*(context.source.search(text, context.asked.top_k) for text in asked))
    all_sides = [Side(text, tuple(evidence)) for text, evidence in zip(asked, found, strict=True)]
    told = [side for side in all_sides if context.source.covers(side.question, side.evidence)]
    evidence = merge_evidence([side.evidence for side in told])
    written = await write(context, question, "analysis_user", evidence, context.options())
    answered = await with_all_sides(context.source, answered_of(written), told)
    missing = [name for name, side in zip(named, all_sides, strict=True) if side not in told]
    notes = tuple(f"The documents do not tell of {name}." for name in missing)
    result = result_of(answered, evidence)
    return result.model_copy(update={"notes": (*result.notes, *notes)})
