"""The engine through its highest surface, with a real model in its own process."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from readahead_serving.backends.native import NativeEngine
from readahead_serving.engine.request import DEADLINE_EXCEEDED, GenerationRequest
from readahead_serving.errors import ContextLengthExceeded, EngineBusy, RequestRefused
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.model.tokenizer import Tokenizer
from readahead_serving.settings import ServingSettings
from tests.serving.generation import collect, request, text_of, tokens_of, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

MAX_RUNNING, MAX_WAITING = 8, 24
SETTINGS = ServingSettings(
    dtype="float32",
    kv_cache_bytes=200 << 20,
    prefill_chunk_tokens=64,
    max_running=MAX_RUNNING,
    max_waiting=MAX_WAITING,
)


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Tokenizer:
    return load_tokenizer(smollm2_path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_engine(smollm2_path: Path, tokenizer: Tokenizer) -> AsyncIterator[NativeEngine]:
    engine = await NativeEngine.start(SETTINGS, smollm2_path, tokenizer)
    yield engine
    await engine.close()


@pytest_asyncio.fixture(loop_scope="module")
async def engine(module_engine: NativeEngine) -> AsyncIterator[NativeEngine]:
    """The module's engine; after each test it must be idle, with no KV lost, and the same process as before."""
    pid = module_engine.pid
    yield module_engine
    await until_idle(module_engine)
    # the engine proves the pool's integrity whenever it becomes idle, and dies if it fails
    assert module_engine.is_ready()
    assert module_engine.pid == pid


async def until_idle(engine: NativeEngine) -> None:
    def idle() -> bool:
        stats = engine.stats()
        return (stats.running, stats.waiting, stats.kv_tokens_used) == (0, 0, 0)

    await until(idle, "an idle engine that holds no KV")


def prompt(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode_chat([{"role": "user", "content": text}])


# -- batching


async def test_streams_run_side_by_side_and_leave_when_they_end(engine: NativeEngine) -> None:
    order: list[str] = []

    async def read(name: str, asked: GenerationRequest) -> None:
        async for delta in engine.generate(asked):
            order.extend(name * len(delta.token_ids))

    long = asyncio.create_task(read("a", request([10, 20], max_tokens=60, ignore_eos=True)))
    await until(lambda: order.count("a") >= 3, "a's first tokens")
    await read("b", request([30, 40], max_tokens=10, ignore_eos=True))
    assert not long.done(), "b came later and left earlier"
    await long
    assert (order.count("a"), order.count("b")) == (60, 10)
    alternations = sum(one != other for one, other in pairwise(order))
    assert alternations >= 8, "".join(order)


async def test_a_running_stream_gets_tokens_while_a_long_prompt_prefills(engine: NativeEngine) -> None:
    chunks = 12
    running = engine.generate(request([10, 20], max_tokens=400, ignore_eos=True))
    async with aclosing(running):
        await anext(running)
        computed = engine.stats().prompt_tokens_computed
        long = asyncio.create_task(tokens_of(engine, request([5] * (64 * chunks), max_tokens=1)))
        during = 0
        while not long.done():
            during += len((await anext(running)).token_ids)
        assert engine.stats().prompt_tokens_computed - computed >= 64 * (chunks - 1)
        assert during >= chunks - 2
        await long


async def test_tokens_and_usage_are_counted_exactly(engine: NativeEngine) -> None:
    deltas = await collect(engine, request([1, 2, 3], max_tokens=7, ignore_eos=True))
    assert sum(len(delta.token_ids) for delta in deltas) == 7
    assert (deltas[-1].usage.prompt_tokens, deltas[-1].usage.completion_tokens) == (3, 7)
    assert [delta.finish_reason for delta in deltas] == [None] * (len(deltas) - 1) + ["length"]
    assert deltas[0].queued_s is not None
    assert all(delta.queued_s is None for delta in deltas[1:])


# -- sampling


async def test_a_seed_gives_the_same_tokens_alone_and_in_a_batch(engine: NativeEngine, tokenizer: Tokenizer) -> None:
    asked = {"temperature": 1.0, "top_p": 0.95, "seed": 1234, "max_tokens": 24}
    ids = prompt(tokenizer, "Tell me something odd.")
    alone = await tokens_of(engine, request(ids, **asked))
    others = [request([7 * n + 1] * (n + 1), temperature=1.0, seed=n, max_tokens=30) for n in range(6)]
    together = await asyncio.gather(*(tokens_of(engine, one) for one in [*others, request(ids, **asked)]))
    assert together[-1] == alone
    assert await tokens_of(engine, request(ids, **asked | {"seed": 4321})) != alone


# -- text


async def test_joined_deltas_are_the_decoded_tokens_in_korean_and_emoji_too(
    engine: NativeEngine, tokenizer: Tokenizer
) -> None:
    # each syllable and emoji takes several tokens of this vocabulary
    schema = {"type": "string", "pattern": "^[가-힣]{8}[😀-😎]{2}[가-힣]{2}$"}
    ids = prompt(tokenizer, "한국어로 말해 주세요.")
    deltas = await collect(
        engine, request(ids, max_tokens=100, temperature=1.0, seed=5, json_schema=json.dumps(schema))
    )
    text = "".join(delta.text for delta in deltas)
    assert text == tokenizer.decode(token for delta in deltas for token in delta.token_ids)
    assert re.fullmatch(schema["pattern"], json.loads(text))
    assert deltas[-1].usage.completion_tokens > len(text)
    assert all("�" not in delta.text for delta in deltas)


async def test_a_stop_string_across_tokens_ends_the_text_before_it_and_the_request_in_the_engine(
    engine: NativeEngine, tokenizer: Tokenizer
) -> None:
    ids = prompt(tokenizer, "Count from one to twenty in words.")
    full = await text_of(engine, request(ids, max_tokens=40, ignore_eos=True))
    for length in (1, 5, 9):
        stop = full[30 : 30 + length]
        deltas = await collect(engine, request(ids, max_tokens=400, ignore_eos=True, stop=(stop, "never written")))
        assert "".join(delta.text for delta in deltas) == full[: full.index(stop)]
        assert deltas[-1].finish_reason == "stop"
        assert deltas[-1].usage.completion_tokens <= 40
        await until_idle(engine)


# -- structure

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "colours": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3},
    },
    "required": ["name", "age", "colours"],
    "additionalProperties": False,
}


def assert_person(text: str) -> None:
    person = json.loads(text)
    assert set(person) == {"name", "age", "colours"}
    assert isinstance(person["name"], str)
    assert len(person["name"]) <= 12
    assert 0 <= person["age"] <= 130
    assert len(person["colours"]) <= 3
    assert set(person["colours"]) <= {"red", "green", "blue"}
    assert text == json.dumps(person, separators=(",", ":"), ensure_ascii=False), "compact"


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 1.5, "seed": 3}])
async def test_a_json_schema_is_satisfied_beside_free_requests(
    engine: NativeEngine, tokenizer: Tokenizer, sampling: dict[str, Any]
) -> None:
    ids = prompt(tokenizer, "Describe a person as JSON.")
    bound = request(ids, max_tokens=120, json_schema=json.dumps(PERSON), **sampling)
    free = request(ids, max_tokens=20, ignore_eos=True)
    deltas, text = await asyncio.gather(collect(engine, bound), text_of(engine, free))
    assert deltas[-1].finish_reason == "stop"
    assert_person("".join(delta.text for delta in deltas))
    assert text == await text_of(engine, request(ids, max_tokens=20, ignore_eos=True))


async def test_a_json_completion_that_is_cut_off_says_length(engine: NativeEngine, tokenizer: Tokenizer) -> None:
    ids = prompt(tokenizer, "Describe a person as JSON.")
    for limit in (1, 2, 5, 8):
        deltas = await collect(engine, request(ids, max_tokens=limit, json_schema=json.dumps(PERSON)))
        assert deltas[-1].finish_reason == "length"
        assert deltas[-1].usage.completion_tokens == limit


# -- refusals


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        (request([]), "prompt"),
        (request([-1]), "prompt"),
        (request([10**6]), "prompt"),
        (request([1], max_tokens=0), "max_tokens"),
        (request([1], temperature=-1), "temperature"),
        (request([1], temperature=float("nan")), "temperature"),
        (request([1], top_p=0), "top_p"),
        (request([1], top_k=-1), "top_k"),
        (request([1], min_p=2), "min_p"),
        (request([1], presence_penalty=3), "presence_penalty"),
        (request([1], stop=("",)), "stop"),
        (request([1], stop=("\ud800",)), "stop"),
        (request([1], json_schema="no json"), "response_format"),
        (request([1], json_schema='"no schema"'), "response_format"),
        (request([1], json_schema='{"type": "no such type"}'), "response_format"),
        (request([1], json_schema='{"type": "string", "pattern": "(?=a)b"}'), "response_format"),
    ],
)
async def test_a_request_that_can_never_be_served_is_refused_by_name(
    engine: NativeEngine, asked: GenerationRequest, param: str
) -> None:
    with pytest.raises(RequestRefused) as refusal:
        await collect(engine, asked)
    assert refusal.value.param == param
    assert len(await tokens_of(engine, request([1], max_tokens=1))) == 1


async def test_a_prompt_over_the_window_or_the_kv_budget_is_refused(engine: NativeEngine) -> None:
    window = engine.max_model_len
    assert window == engine.stats().kv_tokens_total or window == 8192
    with pytest.raises(ContextLengthExceeded):
        await collect(engine, request([1] * window, max_tokens=1))
    with pytest.raises(ContextLengthExceeded):
        await collect(engine, request([1], max_tokens=window))


async def test_a_full_queue_says_busy_and_when_to_come_back(engine: NativeEngine) -> None:
    def asked() -> GenerationRequest:
        return request([3, 4], max_tokens=2, ignore_eos=True)

    accepted = [asyncio.create_task(tokens_of(engine, asked())) for _ in range(MAX_RUNNING + MAX_WAITING)]
    await asyncio.sleep(0)  # lets each of them ask
    with pytest.raises(EngineBusy) as busy:
        await collect(engine, asked())
    assert 0 < busy.value.retry_after_s <= 60
    assert [len(tokens) for tokens in await asyncio.gather(*accepted)] == [2] * len(accepted)
    assert len(await tokens_of(engine, asked())) == 2


async def test_a_request_id_in_use_is_refused(engine: NativeEngine) -> None:
    asked = request([1], max_tokens=50, ignore_eos=True)
    running = engine.generate(asked)
    async with aclosing(running):
        await anext(running)
        with pytest.raises(RequestRefused):
            await collect(engine, asked)


# -- endings


@pytest.mark.parametrize("when", ["queued", "prefilling", "decoding"])
async def test_closing_the_stream_ends_the_request_wherever_it_is(engine: NativeEngine, when: str) -> None:
    fill = MAX_RUNNING if when == "queued" else 0
    neighbours = [
        asyncio.create_task(tokens_of(engine, request([9], max_tokens=40, ignore_eos=True))) for _ in range(fill)
    ]
    if fill:
        await until(lambda: engine.stats().running == MAX_RUNNING, "a full batch")
    aborted = engine.stats().aborted
    length = 1500 if when == "prefilling" else 3
    task = asyncio.create_task(tokens_of(engine, request([5] * length, max_tokens=1000, ignore_eos=True)))
    if when == "queued":
        await until(lambda: engine.stats().waiting == 1, "a waiting request")
    else:
        await until(lambda: engine.stats().running == 1, "a running request")
    if when == "decoding":
        await until(lambda: engine.stats().kv_tokens_used > 128, "a second block of KV")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: engine.stats().aborted == aborted + 1, "the abort")
    assert [len(tokens) for tokens in await asyncio.gather(*neighbours)] == [40] * fill


async def test_a_cancel_storm_leaks_nothing(engine: NativeEngine) -> None:
    for wave in range(4):
        tasks = [
            asyncio.create_task(tokens_of(engine, request([wave + 1] * (1 + 37 * n % 300), max_tokens=200)))
            for n in range(MAX_RUNNING + MAX_WAITING)
        ]
        await until(lambda: engine.stats().running > 0, "a busy engine")
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(result, asyncio.CancelledError) for result in results) > MAX_WAITING
        await until_idle(engine)
    assert len(await tokens_of(engine, request([1], max_tokens=3, ignore_eos=True))) == 3


async def test_a_deadline_ends_a_request_in_the_queue_and_while_it_runs(engine: NativeEngine) -> None:
    late = await collect(engine, request([1], max_tokens=2, deadline=time.time() - 1))
    assert (late[-1].finish_reason, late[-1].error) == ("abort", DEADLINE_EXCEEDED)
    assert late[-1].usage.completion_tokens == 0
    cut = await collect(engine, request([1], max_tokens=1400, ignore_eos=True, deadline=time.time() + 1))
    assert (cut[-1].finish_reason, cut[-1].error) == ("abort", DEADLINE_EXCEEDED)
    assert cut[-1].usage.completion_tokens < 1400


async def test_requests_that_cannot_be_sent_take_no_place(smollm2_path: Path) -> None:
    settings = ServingSettings(kv_cache_bytes=64 << 20, max_running=1, max_waiting=1)
    engine = await NativeEngine.start(settings, smollm2_path, load_tokenizer(smollm2_path))
    try:
        for _ in range(3):
            with pytest.raises(OverflowError):
                await collect(engine, request([1], seed=2**70))  # more than a message holds
        assert len(await tokens_of(engine, request([1], max_tokens=3, ignore_eos=True))) == 3
    finally:
        await engine.close()
