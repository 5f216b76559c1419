"""Writes one action's text from passages: the ones of earlier results, or those that a search finds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from readahead_agents.actions.result import ActionResult
from readahead_agents.answering.answer import DEFAULT_OPTIONS, AnswerOptions, not_covered
from readahead_agents.answering.grounded import grounded_answer
from readahead_agents.answering.held_pack import HeldPack, prompt_on_pack
from readahead_agents.answering.packing import PackedPrompt, PromptParts, pack
from readahead_agents.answering.searching_judge import SearchingJudge
from readahead_agents.answering.second_look import is_covered
from readahead_agents.answering.statements import near_of
from readahead_agents.answering.support import Judge
from readahead_agents.events import Answered, AnswerEvent
from readahead_agents.evidence import EvidenceSource
from readahead_agents.llm.base import CompletionOptions, LanguageModel
from readahead_agents.prompts import prompt
from readahead_agents.settings import AgentSettings
from readahead_retrieval.types import Evidence

_ON_PACK = {"analysis_user": "analysis_pack", "summary_user": "summary_pack"}
"""What is asked of a whole pack in the place of passages. Answers to one question have an action of their own for it,
and sides of a comparison are each shown little on purpose."""


@dataclass(frozen=True, slots=True)
class ActionContext:
    """What the actions of one run work with, bound when the run begins: no argument of a tool can change it."""

    llm: LanguageModel
    source: EvidenceSource
    settings: AgentSettings
    asked: AnswerOptions = DEFAULT_OPTIONS
    """What the run's caller asked of its answer."""
    pack: HeldPack | None = None
    """The whole documents as the model has read them already, where the knowledge base has a pack that fits."""
    asked_as: Mapping[str, str] = field(default_factory=dict)
    """Of a text that was made to stand by itself, how it was asked: the latter is answered, or refused."""

    @property
    def reader(self) -> str:
        """Whom answers are for, as prompts tell it at their end."""
        return self.asked.profile.told() if self.asked.profile is not None else ""

    def options(self, max_tokens: int | None = None) -> CompletionOptions:
        """As the caller asked; one step takes at most its share of the run's tokens, whatever was asked."""
        settings, asked = self.settings, self.asked.completion(self.settings)
        share = max(settings.answer_tokens, settings.max_llm_tokens // (2 * (settings.max_steps + 1)))
        return replace(asked, max_tokens=min(max_tokens or asked.max_tokens, asked.max_tokens, share))


async def write(
    context: ActionContext,
    task: str,
    template: str,
    evidence: Sequence[Evidence],
    options: CompletionOptions,
    reader: str = "",
) -> ActionResult:
    """One text over the evidence, cited; says so when the evidence does not cover the task.

    Args:
        reader: Whom it is for. It stands behind the question, so that prompts for all readers begin alike.
    """
    if not await is_covered(context.source, task, evidence):
        *_, answered = not_covered(context.source, task, evidence)
        return result_of(answered, evidence)
    return await write_covered(context, task, template, evidence, options, reader)


async def write_covered(
    context: ActionContext,
    task: str,
    template: str,
    evidence: Sequence[Evidence],
    options: CompletionOptions,
    reader: str = "",
) -> ActionResult:
    """As `write`, of evidence that is known to cover the task."""
    source, judge = context.source, None
    near = await near_of(source, task, evidence)
    packed = await _on_pack(context, f"{task}{reader}", template, evidence, options)
    if packed is not None:
        packed = replace(packed, near=near)
        judge = SearchingJudge(Judge(source, task, evidence), source, task)
    else:
        system = prompt("answer_system").substitute()
        parts = PromptParts(system, (), tuple(evidence), f"{task}{reader}", template, near=near)
        evidence_tokens = context.settings.evidence_tokens
        packed = await pack(context.llm, parts, max_tokens=options.max_tokens, evidence_tokens=evidence_tokens)
    answered = await last(grounded_answer(context.llm, source, task, packed, options, judge))
    return result_of(answered, packed.passages)


async def _on_pack(
    context: ActionContext, task: str, template: str, evidence: Sequence[Evidence], options: CompletionOptions
) -> PackedPrompt | None:
    """The task put to the whole documents, where the run holds them and the task is one for them."""
    if context.pack is None or template not in _ON_PACK:
        return None
    asked = prompt(_ON_PACK[template]).substitute(question=task)
    return await prompt_on_pack(context.llm, context.pack, asked, evidence, options.max_tokens)


async def last(events: AsyncGenerator[AnswerEvent, None]) -> Answered:
    """Runs an answer to its end."""
    answered: Answered | None = None
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Answered):
                answered = event
    assert answered is not None, "an answer that raises nothing ends with Answered"
    return answered


def result_of(answered: Answered, evidence: Sequence[Evidence]) -> ActionResult:
    return ActionResult(
        text=answered.answer,
        covered=answered.covered,
        quoted=answered.quoted,
        finish_reason=answered.finish_reason,
        evidence=tuple(evidence),
        citations=answered.citations,
        notes=answered.notes,
    )


async def evidence_for(
    context: ActionContext, query: str, earlier: Sequence[ActionResult], *, top_k: int | None = None
) -> list[Evidence]:
    """The documents' own passages: those behind earlier results, taken in turn, else those found for the query."""
    if merged := merge_evidence([result.evidence for result in earlier if result.covered]):
        return merged
    return await context.source.search(query, context.asked.top_k or top_k)


def merge_evidence(lists: Sequence[Sequence[Evidence]]) -> list[Evidence]:
    """Each list's best first, then each one's second: so that a cut at the end takes from all sides alike."""
    merged: dict[int, Evidence] = {}
    for rank in range(max(map(len, lists), default=0)):
        for passages in lists:
            if rank < len(passages):
                merged.setdefault(passages[rank].chunk_id, passages[rank])
    return list(merged.values())
