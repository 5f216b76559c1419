"""The action that answers from the whole documents, which the model has read already."""

from __future__ import annotations

from contextlib import aclosing

from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import ActionContext, result_of
from readahead_agents.answering.pack_answer import answer_from_pack
from readahead_agents.events import Answered, EvidenceFound
from readahead_retrieval.types import Evidence


async def query_cag(context: ActionContext, question: str) -> ActionResult:
    """Answers the question on the pack; a search finds only what the answer is cited by."""
    assert context.pack is not None, "the tool is not there without a pack"
    evidence: tuple[Evidence, ...] = ()
    answered: Answered | None = None
    events = answer_from_pack(
        context.llm,
        context.source,
        context.pack.messages,
        context.pack.tokens,
        context.asked_as.get(question, question),
        (),
        context.settings,
        context.asked,
    )
    async with aclosing(events):
        async for event in events:
            match event:
                case EvidenceFound():
                    evidence = event.evidence
                case Answered():
                    answered = event
    assert answered is not None, "an answer that raises nothing ends with Answered"
    return result_of(answered, evidence)
