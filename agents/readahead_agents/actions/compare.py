"""The action that compares: each side is searched and written of by itself, and all are cited."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import starmap

from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import ActionContext, merge_evidence, write_covered
from readahead_agents.answering.comparison import Side, Told, told_of
from readahead_agents.answering.doubt import MIN_QUOTED
from readahead_agents.answering.figures import numbers
from readahead_agents.answering.joined import joined
from readahead_agents.answering.quotation import Quotation, said_share
from readahead_agents.answering.statements import near_of
from readahead_agents.answering.wording import wording_of
from readahead_agents.planning.question_kind import question_about

MAX_SIDE_TOKENS = 64


async def compare(context: ActionContext, question: str, sides: Sequence[str]) -> ActionResult:
    """Sets two sides or more beside one another, each by what its own passages say.

    The model writes of one side at a time and is shown that side's best statements only: shown all, small models give
    one side the values of another. Sides that the documents do not tell of are named.
    """
    named = list(dict.fromkeys(sides))
    asked = [question_about(side, tuple(named), question) for side in named]
    found = await asyncio.gather(*(context.source.search(text, context.asked.top_k) for text in asked))
    near = await asyncio.gather(*map(partial(near_of, context.source), asked, found))
    all_sides = [Side(*side) for side in zip(named, asked, map(tuple, found), near, strict=True)]
    told = [side for side in all_sides if context.source.covers(side.question, side.evidence)]
    wording = wording_of(question)
    written = await _written(context, told)
    missing = [wording.untold.format(side=side.name) for side in all_sides if side not in told]
    evidence = merge_evidence([side.evidence for side in told or all_sides])
    notes = dict.fromkeys(note for result in written for note in result.notes)
    leads = [f"{side.name[:1].upper()}{side.name[1:]}: " for side in told]
    text, citations = joined(zip(leads, written, strict=True))
    return ActionResult(
        text="\n\n".join(part for part in (text, " ".join(missing)) if part),
        covered=bool(told),
        quoted=any(result.quoted for result in written),
        finish_reason="length" if any(result.finish_reason == "length" for result in written) else "stop",
        evidence=tuple(evidence),
        citations=citations,
        notes=(*notes, *missing),
    )


async def _written(context: ActionContext, sides: Sequence[Side]) -> list[ActionResult]:
    return await asyncio.gather(*starmap(partial(_of_side, context), zip(sides, told_of(sides), strict=True)))


async def _of_side(context: ActionContext, side: Side, told: Told) -> ActionResult:
    """The model's words where the passages bear them out and they give the best statement's figures, if it has any;
    else that statement, as a quotation; as the closest one, where it says too little of what is compared."""
    options = context.options(MAX_SIDE_TOKENS)
    written = await write_covered(context, side.question, "answer_user", told.passages, options)
    figures = numbers(told.best.text)
    if not written.quoted and (not figures or figures & numbers(written.text)):
        return written
    wording = wording_of(side.question)
    is_beside = said_share(side.name, told.best, side.evidence) < MIN_QUOTED
    lead = wording.closest_quoted if is_beside else wording.quoted
    quoted = await Quotation.of(context.source, (told.best,), wording, lead)
    update = {"text": quoted.text, "citations": quoted.cited(quoted.text), "quoted": True, "finish_reason": "stop"}
    return written.model_copy(update=update)
