"""The action that answers a question from the passages found for it."""

from __future__ import annotations

from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import ActionContext, write


async def query_rag_with_context(context: ActionContext, question: str) -> ActionResult:
    """Searches the documents and answers the question from what was found."""
    evidence = await context.source.search(question, context.asked.top_k)
    task = context.asked_as.get(question, question)
    return await write(context, task, "answer_user", evidence, context.options(), context.reader)
