"""Answers a question from documents that the model has already read. The cag route."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from readahead_agents.answering.answer import DEFAULT_OPTIONS, AnswerOptions, find_evidence, not_covered
from readahead_agents.answering.grounded import grounded_answer
from readahead_agents.answering.held_pack import HeldPack, prompt_on_pack, with_instructions
from readahead_agents.answering.searching_judge import SearchingJudge
from readahead_agents.answering.second_look import is_covered
from readahead_agents.answering.statements import near_of
from readahead_agents.answering.support import Judge
from readahead_agents.errors import LanguageModelRefused
from readahead_agents.events import AnswerEvent, EvidenceFound, HistoryRead, QuestionRewritten
from readahead_agents.evidence import EvidenceSource
from readahead_agents.llm.base import LanguageModel, Message
from readahead_agents.memory.recent import spoken
from readahead_agents.prompts import prompt
from readahead_agents.settings import AgentSettings


async def answer_from_pack(
    llm: LanguageModel,
    source: EvidenceSource,
    pack: Sequence[Message],
    pack_tokens: int,
    question: str,
    history: Sequence[Message],
    settings: AgentSettings,
    options: AnswerOptions = DEFAULT_OPTIONS,
) -> AsyncGenerator[AnswerEvent, None]:
    """Streams evidence, tokens, citations and, last, `Answered`, as `answer` does.

    Where the evidence is below the source's floor the model is not asked, as there: a small model answers from a pack
    whatever it is asked. The prompt begins with the pack's messages exactly as they are, so that the server computes
    only what follows. The passages that a search finds are no part of it: they are what the answer is matched to for
    its citations; a sentence that they do not bear out is searched for by itself.

    Args:
        pack: The messages that the pack was built from.
        pack_tokens: Tokens that they take.
        history: Earlier turns; the oldest are left out where they are over the settings' budget or the window is too
            small. System messages in it are the client's own instructions and stand with the question.

    Raises:
        LanguageModelError: When the model fails, or pack, question and answer do not fit its window.
        EmptyKnowledgeBase, QueryError, EmbedderUnavailable: From the search.
    """
    completion, held = options.completion(settings), HeldPack(tuple(pack), pack_tokens)
    reader = options.profile.told() if options.profile is not None else ""
    asked = prompt("pack_user").substitute(question=f"{question}{reader}")
    packed = await prompt_on_pack(
        llm,
        held,
        asked,
        (),
        completion.max_tokens,
        least=settings.answer_tokens,
        history=history,
        history_tokens=settings.history_tokens,
    )
    if packed is None:
        raise await _too_long(llm, held, with_instructions(history, asked), completion.max_tokens)
    query, evidence = await find_evidence(source, question, history, options.top_k)
    if query != question:
        yield QuestionRewritten(query, "rules")
    if spoken(history):
        yield HistoryRead(packed.remembered)
    if not await is_covered(source, question, evidence):
        for told in not_covered(source, question, evidence):
            yield told
        return
    yield EvidenceFound(tuple(evidence))
    packed = replace(packed, passages=tuple(evidence), near=await near_of(source, question, evidence))
    judge = SearchingJudge(Judge(source, question, evidence), source, question)
    async with aclosing(grounded_answer(llm, source, question, packed, completion, judge)) as events:
        async for event in events:
            yield event


async def _too_long(llm: LanguageModel, pack: HeldPack, asked: str, max_tokens: int) -> LanguageModelRefused:
    [size] = await llm.count_tokens([asked])
    message = (
        f"The pack takes {pack.tokens} tokens, the question {size} and the answer {max_tokens}, but the "
        f"model's context window is {await llm.context_window()} tokens. Use the route rag, or ask for fewer answer "
        "tokens."
    )
    return LanguageModelRefused(message, status=400, code="context_length_exceeded", param="messages")
