"""Prompts fit the window, shrunk in the declared order. The scripted model's tokens are words."""

from __future__ import annotations

import pytest

from readahead_agents.answering.packing import PackedPrompt, PromptParts, pack
from readahead_agents.errors import LanguageModelRefused
from readahead_agents.fixed_evidence import passage
from readahead_agents.llm.base import Message
from readahead_agents.llm.scripted import ScriptedLanguageModel

QUESTION = "Which colour has the pump?"
PASSAGES = tuple(passage("a.pdf", page, f"The pump of page {page} has colour number {page}.") for page in (1, 2, 3))
HISTORY = tuple(Message(role, f"{role} turn {number} speaks") for number in (1, 2) for role in ("user", "assistant"))
PARTS = PromptParts("Answer.", HISTORY, PASSAGES, QUESTION)
MAX_TOKENS = 20


async def packed(
    window: int, *, parts: PromptParts = PARTS, evidence_tokens: int = 1000, history_tokens: int = 10_000
) -> PackedPrompt:
    llm = ScriptedLanguageModel(["x"], window=window)
    return await pack(llm, parts, max_tokens=MAX_TOKENS, evidence_tokens=evidence_tokens, history_tokens=history_tokens)


async def full_size() -> int:
    return (await packed(10_000)).prompt_tokens + MAX_TOKENS


@pytest.mark.parametrize(("spare", "dropped_turns"), [(1, 0), (0, 0), (-1, 2)])
async def test_nothing_is_dropped_until_one_token_is_missing(spare: int, dropped_turns: int) -> None:
    result = await packed(await full_size() + spare)
    assert (result.remembered.left_out, result.dropped_passages) == (dropped_turns, 0)
    assert result.prompt_tokens + MAX_TOKENS <= await full_size() + spare


async def test_old_exchanges_go_first_then_the_worst_passages_and_the_question_never() -> None:
    seen = []
    window = await full_size()
    while True:
        try:
            result = await packed(window)
        except LanguageModelRefused as refused:
            assert (refused.code, refused.status) == ("context_length_exceeded", 400)
            break
        seen.append((result.remembered.left_out, result.dropped_passages))
        assert result.passages == PASSAGES[: 3 - result.dropped_passages]
        assert result.messages[0] == Message("system", "Answer.")
        assert result.messages[1:-1] == HISTORY[result.remembered.left_out :]
        assert result.messages[-1].content.endswith(QUESTION)
        window -= 1
    assert list(dict.fromkeys(seen)) == [(0, 0), (2, 0), (4, 0), (4, 1), (4, 2)]


async def test_a_passage_longer_than_the_window_is_cut_to_its_best_statements() -> None:
    long = passage(
        "long.pdf", 4, f"{'Nothing is said here. ' * 300}The pump is green. {'Nothing is said here. ' * 300}"
    )
    result = await packed(120, parts=PromptParts("Answer.", (), (long, *PASSAGES), QUESTION), evidence_tokens=5000)
    assert "The pump is green." in result.messages[-1].content
    assert result.prompt_tokens + MAX_TOKENS <= 120


async def test_what_was_dropped_is_told() -> None:
    result = await packed(await full_size() - 1)
    assert "The 2 earliest turns" in result.notes()[0]


async def test_a_small_evidence_budget_shows_the_statements_nearest_to_the_question() -> None:
    filler = " ".join(f"Sentence {number} speaks of nothing much." for number in range(100, 140))
    long = passage("long.pdf", 4, f"{filler} The lid of the mixer is green. {filler}")
    parts = PromptParts("Answer.", (), (long,), "Which colour has the lid of the mixer?")
    result = await packed(10_000, parts=parts, evidence_tokens=40)
    assert "The lid of the mixer is green." in result.messages[-1].content
    assert result.prompt_tokens < 120
    assert result.passages == (long,)


async def test_a_long_history_costs_a_bounded_number_of_requests() -> None:
    history = tuple(Message(role, f"{role} turn {n} speaks") for n in range(5000) for role in ("user", "assistant"))
    llm = ScriptedLanguageModel(["x"], window=500)
    result = await pack(
        llm,
        PromptParts("Answer.", history, PASSAGES, QUESTION),
        max_tokens=MAX_TOKENS,
        evidence_tokens=1000,
        history_tokens=10_000,
    )
    assert len(llm.counted) <= 3
    assert sum(map(len, llm.counted)) < 100
    assert result.messages[-2] == history[-1]
    assert 0 < result.remembered.left_out < len(history)
    assert result.remembered.left_out + len(result.messages) - 2 == len(history)
    assert result.prompt_tokens + MAX_TOKENS <= 500 < result.prompt_tokens + MAX_TOKENS + 20


async def test_a_long_history_of_long_turns_is_cut_before_it_is_counted() -> None:
    history = tuple(Message("user", "word " * 100_000) for _ in range(50))
    llm = ScriptedLanguageModel(["x"], window=500)
    result = await pack(
        llm,
        PromptParts("Answer.", history, PASSAGES, QUESTION),
        max_tokens=MAX_TOKENS,
        evidence_tokens=1000,
        history_tokens=10_000,
    )
    assert result.remembered.left_out == 50
    assert max(len(text) for texts in llm.counted for text in texts) < 1000


async def test_many_passages_are_cut_in_a_bounded_number_of_requests() -> None:
    passages = tuple(passage("a.pdf", page, f"The pump of page {page} has colour {page}.") for page in range(1, 51))
    llm = ScriptedLanguageModel(["x"], window=500)
    result = await pack(llm, PromptParts("Answer.", (), passages, QUESTION), max_tokens=20, evidence_tokens=5000)
    assert result.passages == passages[: len(result.passages)]
    assert 460 < result.prompt_tokens + 20 <= 500
    assert len(llm.counted) < 12


async def test_a_reply_longer_than_the_window_leaves_half_of_it_to_the_prompt() -> None:
    llm = ScriptedLanguageModel(["x"], window=400)
    result = await pack(llm, PARTS, max_tokens=100_000, evidence_tokens=1000, history_tokens=1000)
    assert (result.remembered.left_out, result.dropped_passages) == (0, 0)
    assert result.prompt_tokens + result.max_tokens == 400
