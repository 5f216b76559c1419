"""The action that answers from the passages that hold a text letter by letter."""

from __future__ import annotations

from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import ActionContext, merge_evidence, write


async def kb_grep(context: ActionContext, question: str, pattern: str) -> ActionResult:
    """Answers the question from passages that hold the text, and from those that a search finds beside them."""
    held = await context.source.holding(pattern)
    found = await context.source.search(question, context.asked.top_k)
    task = context.asked_as.get(question, question)
    evidence = merge_evidence([held, found])
    return await write(context, task, "answer_user", evidence, context.options(), context.reader)
