"""The action that reasons over passages: compares, explains, finds causes and consequences."""

from __future__ import annotations

from collections.abc import Sequence

from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import ActionContext, evidence_for, write


async def generate_analysis(
    context: ActionContext, question: str, focus: str | None, earlier: Sequence[ActionResult]
) -> ActionResult:
    """Analyses the question over the documents' passages: those behind `earlier`, or those that a search finds."""
    task = f"{question} (Look at: {focus})" if focus else question
    evidence = await evidence_for(context, task, earlier)
    return await write(context, task, "analysis_user", evidence, context.options())
