"""Answers a question from documents that the model has already read. The cag route."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from readahead_agents.answer import DEFAULT_OPTIONS, AnswerOptions, find_evidence
from readahead_agents.errors import LanguageModelRefused
from readahead_agents.events import AnswerEvent, EvidenceFound
from readahead_agents.evidence import EvidenceSource
from readahead_agents.grounded import grounded_answer
from readahead_agents.llm import LanguageModel, Message
from readahead_agents.packing import MESSAGE_OVERHEAD, PackedPrompt
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

    The prompt begins with the pack's messages exactly as they are, so that the server computes only what follows. The
    passages that a search finds are no part of it: they are what the answer is matched to for its citations.

    Args:
        pack: The messages that the pack was built from.
        pack_tokens: Tokens that they take.
        history: Earlier turns; the oldest are left out where the window is too small. System messages in it are the
            client's own instructions and stand with the question.

    Raises:
        LanguageModelError: When the model fails, or pack, question and answer do not fit its window.
        EmptyKnowledgeBase, QueryError, EmbedderUnavailable: From the search.
    """
    completion = options.completion(settings)
    asked = Message("user", _question(question, history))
    turns = [turn for turn in history if turn.role != "system"]
    room = await llm.context_window() - pack_tokens - completion.max_tokens - await _size(llm, asked)
    if room < 0:
        raise _too_long(pack_tokens, await _size(llm, asked), completion.max_tokens, await llm.context_window())
    kept = await _newest(llm, turns, room)
    _, evidence = await find_evidence(source, question, history, options.top_k)
    yield EvidenceFound(tuple(evidence))
    packed = PackedPrompt(
        messages=(*pack, *kept, asked),
        passages=tuple(evidence),
        dropped_turns=len(turns) - len(kept),
        dropped_passages=0,
        prompt_tokens=pack_tokens,
    )
    async with aclosing(grounded_answer(llm, source, question, packed, completion)) as events:
        async for event in events:
            yield event


def _question(question: str, history: Sequence[Message]) -> str:
    own = [turn.content for turn in history if turn.role == "system"]
    return "\n\n".join([*own, prompt("pack_user").substitute(question=question)])


async def _size(llm: LanguageModel, message: Message) -> int:
    return await llm.count_tokens(message.content) + 2 * MESSAGE_OVERHEAD


async def _newest(llm: LanguageModel, turns: Sequence[Message], room: int) -> list[Message]:
    """The newest turns that fit, beginning with one of the user's."""
    kept: list[Message] = []
    for turn in reversed(turns):
        room -= await _size(llm, turn)
        if room < 0:
            break
        kept.insert(0, turn)
    while kept and kept[0].role != "user":
        kept.pop(0)
    return kept


def _too_long(pack_tokens: int, question_tokens: int, max_tokens: int, window: int) -> LanguageModelRefused:
    message = (
        f"The pack takes {pack_tokens} tokens, the question {question_tokens} and the answer {max_tokens}, but the "
        f"model's context window is {window} tokens. Use the route rag, or ask for fewer answer tokens."
    )
    return LanguageModelRefused(message, status=400, code="context_length_exceeded", param="messages")
