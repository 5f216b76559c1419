"""Tool calls through OpenAI's SDK against a real server: a model too small to choose well is held to what was asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from tests.serving.llm_server import LlmServer

MODEL = "smollm2-135m-instruct"
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"$ref": "#/$defs/city"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
            "$defs": {"city": {"type": "string", "maxLength": 20}},
        },
    },
}
TIME: Any = {"type": "function", "function": {"name": "get_time", "description": "The time of day"}}
ASK: Any = {"model": MODEL, "temperature": 0, "messages": [{"role": "user", "content": "How warm is it in Paris?"}]}


@pytest.fixture
def client(llm_server: LlmServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=llm_server.base_url, api_key="none", max_retries=0) as client:
        yield client


def test_a_required_call_satisfies_the_tools_schema(client: OpenAI) -> None:
    done = client.chat.completions.create(**ASK, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False)
    choice = done.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert choice.message.tool_calls is not None and len(choice.message.tool_calls) == 1
    call: Any = choice.message.tool_calls[0]
    assert (call.type, call.function.name) == ("function", "get_weather")
    assert json.loads(call.function.arguments).keys() == {"city", "unit"}


def test_a_named_tool_is_the_one_that_is_called(client: OpenAI) -> None:
    chosen: Any = {"type": "function", "function": {"name": "get_time"}}
    done = client.chat.completions.create(**ASK, tools=[WEATHER, TIME], tool_choice=chosen)
    assert done.choices[0].message.tool_calls is not None
    call: Any = done.choices[0].message.tool_calls[0]
    assert (call.function.name, call.function.arguments) == ("get_time", "{}")


def test_the_sdks_stream_helper_gathers_what_the_whole_answer_says(client: OpenAI) -> None:
    asked: Any = {**ASK, "tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
    whole: Any = client.chat.completions.create(**asked).choices[0].message.tool_calls
    with client.chat.completions.stream(**asked) as stream:
        kinds = [event.type for event in stream]
        final: Any = stream.get_final_completion().choices[0]
    assert kinds.count("tool_calls.function.arguments.delta") > 1
    assert kinds.count("tool_calls.function.arguments.done") == 1
    assert final.finish_reason == "tool_calls"
    assert final.message.tool_calls[0].function.arguments == whole[0].function.arguments


class Weather(BaseModel):
    """What the arguments of a call are parsed into."""

    city: str
    warm: bool


def test_the_sdks_parse_helper_gets_arguments_and_answers_of_its_types(client: OpenAI) -> None:
    tool = openai.pydantic_function_tool(Weather)
    called: Any = client.chat.completions.parse(
        **ASK, tools=[tool], tool_choice="required", parallel_tool_calls=False, max_tokens=200
    )
    assert isinstance(called.choices[0].message.tool_calls[0].function.parsed_arguments, Weather)
    answered = client.chat.completions.parse(**ASK, response_format=Weather, max_tokens=200)
    assert isinstance(answered.choices[0].message.parsed, Weather)


def test_a_limit_within_a_call_cuts_its_arguments_alike_in_both_modes(client: OpenAI) -> None:
    asked: Any = {**ASK, "tools": [WEATHER], "tool_choice": "required", "max_tokens": 24}
    whole: Any = client.chat.completions.create(**asked).choices[0]
    chunks = list(client.chat.completions.create(**asked, stream=True))
    deltas: list[Any] = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert whole.finish_reason == chunks[-1].choices[0].finish_reason == "length"
    partial = whole.message.tool_calls[0].function.arguments
    assert partial.startswith('{"city":"')
    assert "".join(delta.function.arguments for delta in deltas) == partial
    with pytest.raises(json.JSONDecodeError):
        json.loads(partial)


def test_tools_that_may_be_called_need_not_be(client: OpenAI) -> None:
    done = client.chat.completions.create(**ASK, tools=[WEATHER], max_tokens=40)
    assert done.choices[0].message.tool_calls or done.choices[0].message.content
    none = client.chat.completions.create(**ASK, tools=[WEATHER], tool_choice="none", max_tokens=20)
    plain = client.chat.completions.create(**ASK, max_tokens=20)
    assert none.choices[0].message.content == plain.choices[0].message.content
    assert none.usage is not None and plain.usage is not None
    assert none.usage.prompt_tokens == plain.usage.prompt_tokens


def test_a_result_goes_back_into_the_conversation(client: OpenAI) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}
    conversation: Any = [
        *ASK["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "31 degrees"},
    ]
    with_result = client.chat.completions.create(**{**ASK, "messages": conversation}, tools=[WEATHER], max_tokens=30)
    assert with_result.choices[0].finish_reason in ("stop", "length")
    assert with_result.usage is not None
    alone = client.chat.completions.create(**ASK, tools=[WEATHER], max_tokens=1)
    assert alone.usage is not None
    assert with_result.usage.prompt_tokens > alone.usage.prompt_tokens + 20


@pytest.mark.parametrize(
    ("structure", "pattern"),
    [
        ({"regex": "[0-9]{3}-[a-z]{2}"}, "[0-9]{3}-[a-z]{2}"),
        ({"choice": ['yes, "sir"', "no\n"]}, 'yes, "sir"|no\n'),
        ({"grammar": 'start: "n=" NUMBER\nNUMBER: /[0-9]+/'}, "n=[0-9]+"),
        ({"json": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}}, r'\{"a":.*\}'),
    ],
    ids=["regex", "choice", "grammar", "json"],
)
def test_text_is_held_to_a_structure(structure: dict[str, Any], pattern: str, client: OpenAI) -> None:
    done = client.completions.create(
        model=MODEL,
        prompt="Answer:",
        max_tokens=60,
        temperature=1,
        seed=4,
        extra_body={"structured_outputs": structure},
    )
    if done.choices[0].finish_reason == "stop":
        assert re.fullmatch(pattern, done.choices[0].text, re.DOTALL), done.choices[0].text
    else:
        assert done.choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("structure", "param", "code"),
    [
        ({"regex": "(?=a)b"}, "structured_outputs.regex", "invalid_regex"),
        ({"regex": "("}, "structured_outputs.regex", "invalid_regex"),
        ({"grammar": "start: nowhere"}, "structured_outputs.grammar", "invalid_grammar"),
        ({"grammar": "start: <no_such_token>"}, "structured_outputs.grammar", "invalid_grammar"),
        ({"json": {"type": "string", "pattern": "(?=a)"}}, "response_format", "invalid_json_schema"),
    ],
)
def test_a_structure_that_cannot_be_followed_is_refused_and_harms_nobody(
    structure: dict[str, Any], param: str, code: str, client: OpenAI
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=MODEL, prompt="x", extra_body={"structured_outputs": structure})
    assert (caught.value.param, caught.value.code) == (param, code)
    assert client.completions.create(model=MODEL, prompt="x", max_tokens=1).choices[0].finish_reason == "length"
