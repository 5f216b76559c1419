"""Answers a question from documents that the model has already read. The cag route."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from readahead_agents.answering.answer import DEFAULT_OPTIONS, AnswerOptions, find_evidence, not_covered
from readahead_agents.answering.grounded import grounded_answer
from readahead_agents.answering.packing import PackedPrompt
from readahead_agents.answering.searching_judge import SearchingJudge
from readahead_agents.answering.second_look import is_covered
from readahead_agents.answering.support import Judge
from readahead_agents.errors import LanguageModelRefused
from readahead_agents.events import AnswerEvent, EvidenceFound, HistoryRead, QuestionRewritten
from readahead_agents.evidence import EvidenceSource
from readahead_agents.llm.base import LanguageModel, Message
from readahead_agents.memory.recent import MESSAGE_OVERHEAD, Remembered, newest_exchanges, newest_within, spoken
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
    completion, window = options.completion(settings), await llm.context_window()
    asked = Message("user", _question(question, history, options))
    turns = spoken(history)
    kept = newest_within(turns, min(settings.history_tokens, window - pack_tokens))
    *sizes, asked_size = [
        count + MESSAGE_OVERHEAD for count in await llm.count_tokens([turn.content for turn in (*kept, asked)])
    ]
    left = window - pack_tokens - asked_size - MESSAGE_OVERHEAD
    if left < min(completion.max_tokens, settings.answer_tokens):
        raise _too_long(pack_tokens, asked_size, completion.max_tokens, window)
    room = left - min(completion.max_tokens, max(settings.answer_tokens, left // 2))
    fitting = newest_exchanges([turn.role for turn in kept], sizes, min(settings.history_tokens, room))
    history_size = sum(sizes[len(sizes) - fitting :])
    max_tokens = min(completion.max_tokens, left - history_size)
    query, evidence = await find_evidence(source, question, history, options.top_k)
    if query != question:
        yield QuestionRewritten(query, "rules")
    remembered = Remembered(fitting, len(turns) - fitting, history_size)
    if turns:
        yield HistoryRead(remembered)
    if not await is_covered(source, question, evidence):
        for told in not_covered(source, question, evidence):
            yield told
        return
    yield EvidenceFound(tuple(evidence))
    packed = PackedPrompt(
        messages=(*pack, *kept[len(kept) - fitting :], asked),
        passages=tuple(evidence),
        remembered=remembered,
        dropped_passages=0,
        prompt_tokens=pack_tokens,
        max_tokens=max_tokens,
        asked_tokens=completion.max_tokens,
    )
    judge = SearchingJudge(Judge(source, question, evidence), source, question)
    async with aclosing(grounded_answer(llm, source, question, packed, completion, judge)) as events:
        async for event in events:
            yield event


def _question(question: str, history: Sequence[Message], options: AnswerOptions) -> str:
    own = [turn.content for turn in history if turn.role == "system"]
    reader = options.profile.told() if options.profile is not None else ""
    return "\n\n".join([*own, prompt("pack_user").substitute(question=f"{question}{reader}")])


def _too_long(pack_tokens: int, question_tokens: int, max_tokens: int, window: int) -> LanguageModelRefused:
    message = (
        f"The pack takes {pack_tokens} tokens, the question {question_tokens} and the answer {max_tokens}, but the "
        f"model's context window is {window} tokens. Use the route rag, or ask for fewer answer tokens."
    )
    return LanguageModelRefused(message, status=400, code="context_length_exceeded", param="messages")
