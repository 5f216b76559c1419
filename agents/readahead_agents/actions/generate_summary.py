"""The action that sums up what the documents say about a topic."""

from __future__ import annotations

from collections.abc import Sequence

from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import ActionContext, evidence_for, write

SUMMARY_PASSAGES = 10
"""A summary looks wider than an answer."""
TOKENS_PER_WORD = 1.6


async def generate_summary(
    context: ActionContext, topic: str, max_words: int, earlier: Sequence[ActionResult]
) -> ActionResult:
    """Sums up the topic in at most `max_words` words, from the passages behind `earlier` or those found."""
    evidence = await evidence_for(context, topic, earlier, top_k=SUMMARY_PASSAGES)
    options = context.options(max_tokens=int(max_words * TOKENS_PER_WORD))
    return await write(context, topic, "summary_user", evidence, options)
