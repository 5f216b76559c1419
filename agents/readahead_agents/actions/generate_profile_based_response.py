"""The action that answers for one reader, by what the reader knows and wants to know."""

from __future__ import annotations

from collections.abc import Sequence

from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import ActionContext, evidence_for, write


async def generate_profile_based_response(
    context: ActionContext, question: str, earlier: Sequence[ActionResult]
) -> ActionResult:
    """Answers as the caller's profile has it, from the passages behind `earlier` or those found."""
    assert context.asked.profile is not None, "the tool is not there without a profile"
    evidence = await evidence_for(context, question, earlier)
    return await write(context, question, "answer_user", evidence, context.options(), context.reader)
