"""Answers one question from one knowledge base: search, pack, write, cite. The rag route."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from readahead_agents.answering.grounded import grounded_answer
from readahead_agents.answering.packing import PackedPrompt, PromptParts, pack
from readahead_agents.answering.passages import nearest_pages
from readahead_agents.answering.second_look import is_covered
from readahead_agents.answering.statements import Near, near_of
from readahead_agents.answering.wording import wording_of
from readahead_agents.approval import Approver
from readahead_agents.events import Answered, AnswerEvent, EvidenceFound, HistoryRead, QuestionRewritten, Token
from readahead_agents.evidence import EvidenceSource
from readahead_agents.llm.base import CompletionOptions, LanguageModel, Message, TokenUsage
from readahead_agents.memory.follow_up import joined
from readahead_agents.memory.recent import spoken
from readahead_agents.profile import UserProfile
from readahead_agents.prompts import prompt
from readahead_agents.run_limits import NO_LIMITS, RunLimits
from readahead_agents.settings import AgentSettings
from readahead_retrieval.types import Evidence


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """What a caller may ask of one answer; None takes the settings."""

    max_tokens: int | None = None
    """Counts up to what the prompt leaves of the model's window."""
    temperature: float | None = None
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    top_k: int | None = None
    """Passages to search for."""
    profile: UserProfile | None = None
    """Who the answer is for. It is told behind documents and question, so that the prompts of all readers share those
    before it."""
    limits: RunLimits = NO_LIMITS
    """What an agent's run may spend."""
    plan: Mapping[str, Any] | None = None
    """What an agent's run is to do, in our shape or the book's, in the place of a plan that the model makes."""
    approver: Approver | None = None
    """Who approves calls of tools that are not marked read-only; without one the agent has no such tools."""

    def completion(self, settings: AgentSettings) -> CompletionOptions:
        return CompletionOptions(
            max_tokens=self.max_tokens or settings.answer_tokens,
            temperature=settings.temperature if self.temperature is None else self.temperature,
            top_p=self.top_p,
            seed=settings.seed if self.seed is None else self.seed,
            stop=self.stop,
            timeout_s=settings.max_seconds,
        )


DEFAULT_OPTIONS = AnswerOptions()


async def answer(
    llm: LanguageModel,
    source: EvidenceSource,
    question: str,
    history: Sequence[Message],
    settings: AgentSettings,
    options: AnswerOptions = DEFAULT_OPTIONS,
) -> AsyncGenerator[AnswerEvent, None]:
    """Streams evidence, tokens, citations and, last, `Answered`.

    Where the evidence is below the source's floor the model is not asked: the answer says that the documents do not
    answer the question, and names the nearest pages. Closing the generator ends the work at the server.

    Args:
        history: Earlier turns, oldest first. System messages in it are the client's own instructions and go behind
            ours; they are never cut.

    Raises:
        LanguageModelError: When the model fails or the question does not fit its window.
        EmptyKnowledgeBase, QueryError, EmbedderUnavailable: From the search.
    """
    query, evidence = await find_evidence(source, question, history, options.top_k)
    if query != question:
        yield QuestionRewritten(query, "rules")
    if not await is_covered(source, question, evidence):
        for told in not_covered(source, question, evidence):
            yield told
        return
    completion = options.completion(settings)
    near = await near_of(source, question, evidence)
    packed = await pack_question(llm, question, history, evidence, near, settings, options)
    if history:
        yield HistoryRead(packed.remembered)
    yield EvidenceFound(packed.passages)
    async with aclosing(grounded_answer(llm, source, question, packed, completion)) as events:
        async for event in events:
            yield event


async def find_evidence(
    source: EvidenceSource, question: str, history: Sequence[Message], top_k: int | None = None
) -> tuple[str, list[Evidence]]:
    """The passages for a question, and the query that found them: a question that finds nothing by itself is searched
    together with what was asked before it, whether it looks like a follow-up or not. What comes of that must bear on
    the question itself, as it always bears on the one before."""
    found = await source.search(question, top_k)
    query = joined(question, history)
    if query == question or source.covers(question, found):
        return question, found
    together = await source.search(query, top_k)
    return (query, together) if source.covers(question, together) else (question, found)


async def pack_question(
    llm: LanguageModel,
    question: str,
    history: Sequence[Message],
    evidence: Sequence[Evidence],
    near: Near,
    settings: AgentSettings,
    options: AnswerOptions = DEFAULT_OPTIONS,
) -> PackedPrompt:
    """The prompt for a grounded answer, cut to the budgets and the window."""
    parts = PromptParts(
        system=system_text(history),
        history=spoken(history),
        passages=tuple(evidence),
        question=question,
        reader=options.profile.told() if options.profile is not None else "",
        near=near,
    )
    return await pack(
        llm,
        parts,
        max_tokens=options.completion(settings).max_tokens,
        evidence_tokens=settings.evidence_tokens,
        history_tokens=settings.history_tokens,
    )


def system_text(history: Sequence[Message]) -> str:
    """Our static text, then what the client's own system messages add."""
    own = prompt("answer_system").substitute()
    return "\n\n".join([own, *(turn.content for turn in history if turn.role == "system")])


def not_covered(
    source: EvidenceSource,
    question: str,
    evidence: Sequence[Evidence],
    usage: TokenUsage | None = None,
    *,
    is_near: bool = False,
) -> tuple[EvidenceFound, Token, Answered]:
    """The answer when the documents do not hold one, with the nearest pages as a hint, or what the named one lacks.

    Args:
        is_near: Whether the evidence bears on the question. Then it is said of it alone that it does not tell.
    """
    wording = wording_of(question)
    text = wording.not_told if is_near else wording.not_covered.format(kb=source.name)
    if missing := source.missing_page(question):
        document, page = missing
        text += f" {wording.no_page.format(document=document, page=page)}"
    elif nearest := nearest_pages(evidence, wording):
        text += f" {nearest}"
    answered = Answered(text, (), usage or TokenUsage(), "stop", covered=False)
    return EvidenceFound(tuple(evidence)), Token(text), answered
