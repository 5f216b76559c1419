"""What OpenAI clients rely on beyond single fields: seeds, stops, code points, usage and reuse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.serving.llm_server import LlmServer

MODEL = "smollm2-135m-instruct"
ASK: Any = {"model": MODEL, "messages": [{"role": "user", "content": "Write a line of verse."}], "max_tokens": 16}


@pytest.fixture
async def client(llm_server: LlmServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=llm_server.base_url, api_key="none", max_retries=0) as client:
        yield client


async def text(client: AsyncOpenAI, **fields: Any) -> str:
    done = await client.chat.completions.create(**{**ASK, **fields})
    return done.choices[0].message.content or ""


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 1.0, "seed": 11}], ids=["greedy", "seeded"])
async def test_a_text_is_the_same_alone_and_in_a_batch(sampling: dict[str, Any], client: AsyncOpenAI) -> None:
    alone = await text(client, **sampling)
    others = [text(client, temperature=1.0, seed=n, max_tokens=10 + n) for n in range(4)]
    among, *_ = await asyncio.gather(text(client, **sampling), *others)
    assert among == alone


HANGUL = "가나다라 마바사 아자차 😀👩‍🚀 카타파하"


@pytest.mark.parametrize("stop", [None, "차 😀", "👩‍🚀"])
async def test_code_points_come_whole_and_stops_are_found_within_them(stop: str | None, client: AsyncOpenAI) -> None:
    """A grammar makes the model say the text; its tokens cut every syllable and emoji into bytes."""
    asked: Any = {
        "model": MODEL,
        "prompt": "x",
        "max_tokens": 100,
        "stop": stop,
        "extra_body": {"structured_outputs": {"choice": [HANGUL]}},
    }
    expected = HANGUL if stop is None else HANGUL[: HANGUL.index(stop)]
    whole = await client.completions.create(**asked)
    pieces = [chunk.choices[0].text async for chunk in await client.completions.create(**asked, stream=True)]
    assert whole.choices[0].text == "".join(pieces) == expected
    assert not any("\ufffd" in piece for piece in pieces)


async def test_usage_is_counted_and_repeats(client: AsyncOpenAI) -> None:
    asked: Any = {**ASK, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
    whole = (await client.chat.completions.create(**{**ASK, "temperature": 0})).usage
    chunks = [chunk async for chunk in await client.chat.completions.create(**asked)]
    assert all(chunk.usage is None for chunk in chunks[:-1])
    streamed = chunks[-1].usage
    assert whole is not None and streamed is not None and chunks[-1].choices == []
    assert (streamed.prompt_tokens, streamed.completion_tokens) == (whole.prompt_tokens, whole.completion_tokens)
    assert streamed.total_tokens == streamed.prompt_tokens + streamed.completion_tokens
    assert len({chunk.id for chunk in chunks}) == 1


async def test_a_second_identical_prompt_is_told_as_cached(client: AsyncOpenAI) -> None:
    question = "Name three rivers of Europe, and say of each where it rises and where it ends. " * 8
    asked: Any = {**ASK, "messages": [{"role": "user", "content": question}], "max_tokens": 1}
    await client.chat.completions.create(**asked)
    usage = (await client.chat.completions.create(**asked)).usage
    assert usage is not None and usage.prompt_tokens_details is not None
    assert (usage.prompt_tokens_details.cached_tokens or 0) > usage.prompt_tokens // 2
