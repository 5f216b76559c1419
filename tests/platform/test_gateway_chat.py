"""Questions on a knowledge base through the official SDK, with a model that says what it is told to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from readahead_agents.errors import LanguageModelRefused, LanguageModelUnavailable
from readahead_agents.llm.base import CompletionChunk, CompletionOptions, Message
from readahead_agents.llm.scripted import ScriptedLanguageModel
from tests.platform.gateway import Gateway, add_document, running_gateway
from tests.retrieval.library_parts import until

ANSWER = "The oil of the gearbox is changed after 600 hours of work."
QUESTION: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "When is the oil of the gearbox changed?"},
]


def ask(route: str = "auto") -> dict[str, Any]:
    return {"readahead": {"route": route}}


@pytest.fixture
async def ids(gateway: Gateway, manual: Path) -> dict[str, str]:
    gateway.llm.script = [ANSWER]
    return await add_document(gateway, "manuals", manual)


async def test_an_answer_cites_its_page(gateway: Gateway, ids: dict[str, str]) -> None:
    completion = await gateway.sdk().chat.completions.create(model="kb/manuals", messages=QUESTION)
    message = completion.choices[0].message
    assert message.content == ANSWER
    field = (message.model_extra or {})["readahead"]
    assert field["route"]["chosen"] == "rag"
    assert field["covered"] is True
    assert set(field["timings_ms"]) == {"search", "first_token", "total"}
    citation = field["citations"][0]
    assert (citation["document"], citation["document_id"], citation["page"]) == ("manual.pdf", ids["document"], 2)
    assert "600 hours" in citation["quote"]
    assert citation["boxes"]
    assert message.annotations is not None
    cited = message.annotations[0].url_citation
    assert ANSWER[cited.start_index : cited.end_index] == ANSWER
    image = await gateway.http("").get(cited.url)
    assert image.headers["content-type"] == "image/png"
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens > 0


async def test_a_stream_carries_what_the_whole_answer_carries(gateway: Gateway, ids: dict[str, str]) -> None:
    sdk = gateway.sdk()
    whole = (await sdk.chat.completions.create(model="kb/manuals", messages=QUESTION)).choices[0]
    stream = await sdk.chat.completions.create(
        model="kb/manuals", messages=QUESTION, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert len({chunk.id for chunk in chunks}) == 1
    *content, usage = chunks
    assert usage.choices == []
    assert usage.usage is not None
    assert all(chunk.usage is None for chunk in content)
    assert content[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in content) == whole.message.content
    last = content[-1].choices[0]
    assert (last.finish_reason, whole.finish_reason) == ("stop", "stop")
    told = (last.delta.model_extra or {})["readahead"]
    expected = (whole.message.model_extra or {})["readahead"]
    pages = [[(c["document"], c["page"], c["quote"]) for c in field["citations"]] for field in (told, expected)]
    assert pages[0] == pages[1]
    assert len((last.delta.model_extra or {})["annotations"]) == len(whole.message.annotations or [])


async def test_usage_comes_only_when_it_is_asked_for(gateway: Gateway, ids: dict[str, str]) -> None:
    stream = await gateway.sdk().chat.completions.create(model="kb/manuals", messages=QUESTION, stream=True)
    chunks = [chunk async for chunk in stream]
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)


async def test_an_agent_shows_its_steps(gateway: Gateway, ids: dict[str, str]) -> None:
    gateway.llm.script = say
    stream = await gateway.sdk().chat.completions.create(
        model="kb/manuals", messages=QUESTION, stream=True, extra_body=ask("agent")
    )
    chunks = [chunk async for chunk in stream]
    extras = [chunk.model_extra or {} for chunk in chunks]
    events = [extra["readahead"]["event"] for extra in extras if "readahead" in extra]
    types = [event["type"] for event in events]
    assert types[0] == "route"
    assert types.index("plan") < types.index("step_started") < types.index("step_finished")
    run = (chunks[-1].choices[0].delta.model_extra or {})["readahead"]["run"]
    assert [step["ok"] for step in run["steps"]] == [True] * types.count("step_started")
    assert run["steps"][0]["tool"] == "query_rag_with_context"


def say(messages: object, options: CompletionOptions) -> str:
    """A plan where one is asked for, else the answer."""
    if options.json_schema is None:
        return ANSWER
    step = {"tool": "query_rag_with_context", "arguments": {"query": "oil of the gearbox"}, "depends_on": []}
    return json.dumps({"plan": [step], "reasoning": "One search.", "estimated_steps": 1})


async def test_the_conversation_reaches_the_model(gateway: Gateway, ids: dict[str, str]) -> None:
    await gateway.sdk().chat.completions.create(
        model="kb/manuals",
        messages=[
            {"role": "developer", "content": "Answer like a pirate."},
            {"role": "user", "content": "How heavy is the pump?"},
            {"role": "assistant", "content": "It weighs 41 kilograms."},
            {"role": "user", "content": [{"type": "text", "text": "When is the oil of the gearbox changed?"}]},
        ],
    )
    sent: tuple[Message, ...] = gateway.llm.calls[-1].messages
    assert sent[0].role == "system"
    assert "Answer like a pirate." in sent[0].content
    assert [m.content for m in sent[1:3]] == ["How heavy is the pump?", "It weighs 41 kilograms."]
    assert "When is the oil of the gearbox changed?" in sent[-1].content


@pytest.mark.parametrize("stream", [False, True])
async def test_an_empty_knowledge_base_is_told_with_a_status(gateway: Gateway, stream: bool) -> None:
    await gateway.sdk().vector_stores.create(name="empty")
    with pytest.raises(openai.BadRequestError) as raised:
        await gateway.sdk().chat.completions.create(model="kb/empty", messages=QUESTION, stream=stream)
    assert raised.value.code == "knowledge_base_empty"


@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_llm_server_refuses_keeps_its_words(gateway: Gateway, ids: dict[str, str], stream: bool) -> None:
    refusal = LanguageModelRefused("Too long.", status=400, code="context_length_exceeded", param="messages")
    gateway.llm.script = [refusal]
    with pytest.raises(openai.BadRequestError) as raised:
        await gateway.sdk().chat.completions.create(model="kb/manuals", messages=QUESTION, stream=stream)
    assert (raised.value.code, raised.value.param) == ("context_length_exceeded", "messages")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_absent_llm_server_is_told_as_retryable(gateway: Gateway, ids: dict[str, str], stream: bool) -> None:
    gateway.llm.script = [LanguageModelUnavailable("It is starting.", 3.0)]
    with pytest.raises(openai.InternalServerError) as raised:
        await gateway.sdk().chat.completions.create(model="kb/manuals", messages=QUESTION, stream=stream)
    assert raised.value.status_code == 503
    assert raised.value.response.headers["retry-after"] == "3"
    with pytest.raises(openai.InternalServerError) as plain:
        await gateway.sdk().chat.completions.create(model="some-model", messages=QUESTION, stream=stream)
    assert (plain.value.status_code, plain.value.code) == (503, "model_unavailable")
    assert plain.value.response.headers["retry-after"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"n": 2}, "n"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"temperature": 9}, "temperature"),
    ({"readahead": {"rote": "rag"}}, "readahead.rote"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "assistant", "content": "Hello."}]}, "messages"),
    ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"logprobs": True}, "logprobs"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"presence_penalty": 0.5}, "presence_penalty"),
    ({"frequency_penalty": -1}, "frequency_penalty"),
    ({"logit_bias": {"5": 1}}, "logit_bias"),
    ({"top_k": 40}, "top_k"),
    ({"modalities": ["audio"]}, "modalities"),
    ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
    ({"timeout": 0}, "timeout"),
    ({"readahead": {"top_k": 0}}, "readahead.top_k"),
    ({"model": 3}, "model"),
]
HARMLESS: dict[str, Any] = {
    "n": 1,
    "stream": None,
    "stream_options": None,
    "max_tokens": None,
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "functions": None,
    "response_format": {"type": "text"},
    "logprobs": False,
    "top_logprobs": None,
    "presence_penalty": 0,
    "frequency_penalty": 0.0,
    "logit_bias": {},
    "top_k": -1,
    "repetition_penalty": 1.0,
    "modalities": ["text"],
    "readahead": None,
    "user": "someone",
    "store": False,
    "metadata": {"a": "b"},
    "service_tier": "auto",
    "reasoning_effort": None,
    "timeout": 60,
}


async def test_what_cannot_be_honoured_is_refused_by_name(gateway: Gateway, ids: dict[str, str]) -> None:
    for body, param in REFUSED:
        asked = {"model": "kb/manuals", "messages": [{"role": "user", "content": "How heavy?"}], **body}
        response = await gateway.http().post("/v1/chat/completions", json=asked)
        assert response.status_code == 400, response.text
        assert response.json()["error"]["param"] == param
    assert gateway.llm.calls == []


async def test_what_clients_send_without_asking_for_anything_is_taken(gateway: Gateway, ids: dict[str, str]) -> None:
    asked = {"model": "kb/manuals", "messages": QUESTION, **HARMLESS}
    response = await gateway.http().post("/v1/chat/completions", json=asked)
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("route", ["rag", "agent"])
async def test_sampling_options_reach_the_writing_on_every_route(
    gateway: Gateway, ids: dict[str, str], route: str
) -> None:
    gateway.llm.script = say
    await gateway.sdk().chat.completions.create(
        model="kb/manuals",
        messages=QUESTION,
        max_tokens=300,
        temperature=0.8,
        top_p=0.4,
        seed=5,
        stop=["END"],
        extra_body=ask(route),
    )
    options = gateway.llm.calls[-1].options
    assert (options.max_tokens, options.temperature, options.top_p) == (300, 0.8, 0.4)
    assert (options.seed, options.stop) == (5, ("END",))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_ends_when_its_own_time_is_over(gateway: Gateway, ids: dict[str, str], stream: bool) -> None:
    gateway.llm.hold = lambda _call: asyncio.Event().wait()
    body = {"model": "kb/manuals", "messages": QUESTION, "stream": stream, "timeout": 0.3}
    response = await gateway.http().post("/v1/chat/completions", json=body)
    assert '"code":"deadline_exceeded"' in response.text
    if not stream:
        assert (response.status_code, response.headers["x-should-retry"]) == (408, "false")
    await until(lambda: gateway.llm.abandoned == 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_ends_the_completion(gateway: Gateway, ids: dict[str, str], stream: bool) -> None:
    gateway.llm.hold = lambda _call: asyncio.Event().wait()
    asking = asyncio.create_task(ask_and_read(gateway, stream=stream))
    await until(lambda: gateway.llm.running == 1)
    asking.cancel()
    await until(lambda: gateway.llm.abandoned == 1)
    assert gateway.llm.running == 0


async def ask_and_read(gateway: Gateway, *, stream: bool) -> None:
    body = {"model": "kb/manuals", "messages": QUESTION, "stream": stream}
    async with gateway.http().stream("POST", "/v1/chat/completions", json=body) as response:
        await response.aread()


class DyingLanguageModel(ScriptedLanguageModel):
    """Says a sentence, begins another and is gone."""

    async def stream(
        self, messages: Sequence[Message], options: CompletionOptions
    ) -> AsyncGenerator[CompletionChunk, None]:
        yield CompletionChunk("The oil of the gearbox is changed after 600 hours of work. It ")
        raise LanguageModelUnavailable("It has died.")


async def test_a_failure_in_mid_stream_is_an_error_frame_and_no_end(tmp_path: Path, manual: Path) -> None:
    async with running_gateway(tmp_path / "home", llm=DyingLanguageModel([""])) as gateway:
        await add_document(gateway, "manuals", manual)
        stream = await gateway.sdk().chat.completions.create(model="kb/manuals", messages=QUESTION, stream=True)
        with pytest.raises(openai.APIError, match="It has died"):
            async for _chunk in stream:
                pass
        body = {"model": "kb/manuals", "messages": QUESTION, "stream": True}
        raw = await gateway.http().post("/v1/chat/completions", json=body)
        assert raw.status_code == 200
        assert "[DONE]" not in raw.text
        error = json.loads(raw.text.strip().splitlines()[-1].removeprefix("data: "))["error"]
        assert (error["code"], error["type"]) == ("model_unavailable", "server_error")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stopping_gateway_ends_what_it_cannot_wait_for_with_an_error(
    gateway: Gateway, ids: dict[str, str], stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    held = asyncio.Event()

    async def hold(_call: object) -> None:
        held.set()
        await asyncio.Event().wait()

    gateway.llm.hold = hold
    body = {"model": "kb/manuals", "messages": QUESTION, "stream": stream}
    asking = asyncio.create_task(gateway.http().post("/v1/chat/completions", json=body))
    await held.wait()
    stopping = asyncio.create_task(gateway.context.drain.run())
    await until(lambda: gateway.context.drain.is_draining)
    refused = await gateway.http().get("/v1/files")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "server_stopping")
    assert (await gateway.http().get("/health/live")).status_code == 200
    await stopping
    response = await asking
    assert '"code":"server_stopping"' in response.text
    assert response.status_code == 503  # no sentence had ended, so nothing was streamed
    assert "[DONE]" not in response.text
    assert gateway.llm.running == 0
    assert caplog.records == []


async def test_a_stopping_gateway_waits_for_what_is_almost_done(gateway: Gateway, ids: dict[str, str]) -> None:
    held, release = asyncio.Event(), asyncio.Event()

    async def hold(_call: object) -> None:
        held.set()
        await release.wait()

    gateway.llm.hold = hold
    asking = asyncio.create_task(ask_once(gateway))
    await held.wait()
    stopping = asyncio.create_task(gateway.context.drain.run())
    release.set()
    assert await asking == ANSWER
    await stopping


async def ask_once(gateway: Gateway) -> str | None:
    answered = await gateway.sdk().chat.completions.create(model="kb/manuals", messages=QUESTION)
    return answered.choices[0].message.content
