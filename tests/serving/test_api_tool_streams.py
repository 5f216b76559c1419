"""The exact chunks of streamed tool calls, over scripted completions cut anywhere."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead_serving.api.chat_stream import chat_message
from readahead_serving.api.models import PromptTokenizer
from readahead_serving.api.tool_calls import CallPiece, TextPiece, ToolCallReader
from readahead_serving.engine.request import FinishReason, GenerationDelta, GenerationRequest
from tests.serving.scripted import AsgiCall, Script, ScriptedEngine, chat_body, delta, scripted_app

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def saying(pieces: Sequence[str], reason: FinishReason = "stop") -> Script:
    async def script(request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
        for number, piece in enumerate(pieces, 1):
            yield delta(request, piece, number)
        yield delta(request, "", len(pieces), reason)

    return script


async def chunks(script: Script, tokenizer: PromptTokenizer, **fields: Any) -> list[dict[str, Any]]:
    body = chat_body(stream=True, tools=TOOLS, **fields)
    app = AsgiCall(scripted_app(ScriptedEngine(script), tokenizer), "/v1/chat/completions", body)
    assert (await app.message())["status"] == 200
    events = [line.removeprefix("data: ") for line in (await app.rest()).decode().split("\n\n") if line]
    await app.finished()
    assert events.pop() == "[DONE]"
    return [json.loads(event)["choices"][0] for event in events]


def without_ids(delta: dict[str, Any]) -> dict[str, Any]:
    """The same with the random part of ids taken out, after a check that there is one."""
    for one in delta.get("tool_calls", ()):
        if "id" in one:
            assert len(one["id"]) == len("call_") + 24
            one["id"] = one["id"][:5]
    return delta


async def test_two_parallel_calls_stream_as_openais_do(smollm2_tokenizer: PromptTokenizer) -> None:
    text = [
        "Let me see.\n<tool",
        '_call>\n{"name": "f", "argu',
        'ments": {"a"',
        ": 1}}\n</tool_call>\n",
        call("g", "{}"),
    ]
    seen = await chunks(saying(text), smollm2_tokenizer)
    assert [without_ids(choice["delta"]) for choice in seen] == [
        {"role": "assistant", "content": ""},
        {"content": "Let me see."},
        {"tool_calls": [{"index": 0, "id": "call_", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
        {"tool_calls": [{"index": 1, "id": "call_", "type": "function", "function": {"name": "g", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {},
    ]
    assert [choice["finish_reason"] for choice in seen] == [None] * 7 + ["tool_calls"]


async def test_a_limit_within_a_call_is_a_length_and_no_failure(smollm2_tokenizer: PromptTokenizer) -> None:
    seen = await chunks(saying([call("f", '{"a": "}')[:-15]], "length"), smollm2_tokenizer)
    assert [call["function"]["arguments"] for c in seen for call in c["delta"].get("tool_calls", ())] == ["", '{"a": "']
    assert seen[-1]["finish_reason"] == "length"


async def test_without_tools_tags_are_just_text(smollm2_tokenizer: PromptTokenizer) -> None:
    text = call("f", "{}")
    seen = await chunks(saying([text]), smollm2_tokenizer, tool_choice="none")
    assert "".join(choice["delta"].get("content", "") for choice in seen) == text
    assert seen[-1]["finish_reason"] == "stop"


ARGUMENTS = st.dictionaries(st.text(max_size=5), st.text(alphabet='{}[]"\\<tool_call>/\n é', max_size=12), max_size=3)
PARTS = st.lists(
    st.one_of(st.text(alphabet="<tool_cal> x\n", max_size=12), ARGUMENTS.map(lambda a: call("f", json.dumps(a)))),
    max_size=4,
)


@given(PARTS, st.data())
def test_however_a_completion_is_cut_it_reads_the_same(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    reader = ToolCallReader()
    pieces = [p for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) for p in reader.push(text[a:b])]
    pieces += reader.flush()
    content = "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))
    arguments: list[str] = []
    for piece in pieces:
        if isinstance(piece, CallPiece) and piece.id is not None:
            assert piece.number == len(arguments), "calls are numbered in order"
            arguments.append("")
        if isinstance(piece, CallPiece):
            arguments[piece.number] += piece.arguments
    message, called = chat_message(text, with_tools=True)
    assert content == (message["content"] or "")
    assert arguments == [one["function"]["arguments"] for one in message.get("tool_calls", ())]
    assert called == bool(arguments)


@pytest.mark.parametrize("raw", ["<tool_call>\nnot json\n</tool_call>", "<tool_call>", "a < b", '<tool_call>{"x": 1}'])
def test_what_is_no_call_harms_nothing(raw: str) -> None:
    message, called = chat_message(raw, with_tools=True)
    assert not called
    assert raw.startswith(message["content"]) or message["content"] == raw


@given(ARGUMENTS, ARGUMENTS)
def test_arguments_come_out_as_they_went_in(first: dict[str, str], second: dict[str, str]) -> None:
    text = f"Before {call('f', json.dumps(first))}\n{call('g', json.dumps(second))} after"
    message, called = chat_message(text, with_tools=True)
    assert called
    assert message["content"] == "Before\nafter"
    functions = [one["function"] for one in message["tool_calls"]]
    assert [function["name"] for function in functions] == ["f", "g"]
    assert [json.loads(function["arguments"]) for function in functions] == [first, second]
