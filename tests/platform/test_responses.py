"""/v1/responses through the official SDK: from documents, from a plain model, with tools, in the background."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from readahead_agents.limits import Budget
from readahead_agents.llm.scripted import ScriptedLanguageModel
from readahead_agents.mcp.server_settings import McpServerSettings
from readahead_platform.gateway.drain import Drain
from readahead_platform.ports import bind_gateway
from readahead_platform.responses.found_passages import UNSUPPORTED
from readahead_platform.service import serving
from readahead_serving.api.app import create_app
from readahead_serving.api.models import LanguageModel, Models
from readahead_serving.engine.request import GenerationDelta, GenerationRequest
from readahead_serving.model.tokenizer import Tokenizer
from readahead_serving.settings import ServingSettings
from tests.platform.gateway import Gateway, add_document, running_gateway
from tests.platform.running import free_port
from tests.platform.test_agent_runs import ANSWER, Gate
from tests.retrieval import pdf_samples as samples
from tests.serving.scripted import MODEL, ScriptedEngine, delta

QUESTION = "How heavy is the Halden pump?"
SEARCH = {"type": "file_search", "vector_store_ids": ["vs_1"]}


class Replies:
    """What a model says, call by call; the last one again and again."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.prompts: list[GenerationRequest] = []

    async def script(self, request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
        text = self.texts[min(len(self.prompts), len(self.texts) - 1)]
        self.prompts.append(request)
        whole, limit = text.split(" "), request.sampling.max_tokens
        words = whole[:limit]
        for number, word in enumerate(words, 1):
            yield delta(request, word if number == len(words) else f"{word} ", number)
        yield delta(request, "", len(words), "length" if len(whole) > limit else "stop")


@asynccontextmanager
async def with_model(
    home: Path, tokenizer: Tokenizer, replies: Replies, servers: Sequence[McpServerSettings] = ()
) -> AsyncIterator[Gateway]:
    """A gateway over the real API of an LLM server, whose engine plays a script."""
    model = LanguageModel(MODEL, ScriptedEngine(replies.script), tokenizer, 8192)
    app, port = create_app(ServingSettings(), Models(language=model, expected=(MODEL,))), free_port()
    async with (
        serving(app, bind_gateway("127.0.0.1", port), Drain(0.2)),
        running_gateway(home, llm_url=f"http://127.0.0.1:{port}", mcp_servers=servers) as gateway,
    ):
        yield gateway


@pytest.fixture
async def asked(gateway: Gateway, manual: Path) -> Gateway:
    await add_document(gateway, "manuals", manual)
    gateway.llm.script = [ANSWER]
    return gateway


async def test_an_answer_from_documents_cites_file_and_page(asked: Gateway) -> None:
    sdk = asked.sdk()
    store = (await sdk.vector_stores.list()).data[0]
    response = await sdk.responses.create(
        model="any",
        input=QUESTION,
        tools=[{"type": "file_search", "vector_store_ids": [store.id]}],
        include=["file_search_call.results"],
    )
    assert response.status == "completed" and ANSWER in response.output_text
    search, message = response.output
    assert search.type == "file_search_call" and search.queries == [QUESTION] and search.results
    assert message.type == "message" and message.content[0].type == "output_text"
    cited = message.content[0].annotations[0].to_dict()
    assert cited["type"] == "file_citation" and cited["filename"] == "manual.pdf" and cited["page"] == 1
    assert await sdk.files.retrieve(str(cited["file_id"]))
    assert response.usage is not None and response.usage.total_tokens > 0
    assert (await sdk.responses.retrieve(response.id)).output_text == response.output_text


async def test_a_file_search_keeps_to_its_filters_and_threshold_and_tells_attributes(
    gateway: Gateway, manual: Path, tmp_path: Path
) -> None:
    ids = await add_document(gateway, "manuals", manual)
    sdk, store = gateway.sdk(), ids["store"]
    older = samples.write_pdf(tmp_path / "older.pdf", samples.lines("The Halden pump weighs 57 kilograms as built."))
    file = await sdk.files.create(file=older, purpose="assistants")
    await sdk.vector_stores.files.create_and_poll(file.id, vector_store_id=store, attributes={"year": 2019})
    await sdk.vector_stores.files.update(
        ids["file"], vector_store_id=store, attributes={"year": 2024, "kind": "manual"}
    )

    async def results(**search: Any) -> tuple[str, list[Any]]:
        tools: Any = [{"type": "file_search", "vector_store_ids": [store], **search}]
        made = await sdk.responses.create(
            model="any", input=QUESTION, tools=tools, include=["file_search_call.results"]
        )
        assert made.status == "completed" and made.output[0].type == "file_search_call", made.error
        return made.output_text, made.output[0].results or []

    _, every = await results()
    assert {found.file_id for found in every} == {file.id, ids["file"]}
    attributes = {found.file_id: found.attributes for found in every}
    assert attributes == {file.id: {"year": 2019}, ids["file"]: {"year": 2024, "kind": "manual"}}
    _, older_only = await results(filters={"type": "lt", "key": "year", "value": 2020})
    assert [(found.filename, found.attributes) for found in older_only] == [("older.pdf", {"year": 2019})]
    likeness = sorted(found.score or 0.0 for found in every)
    _, near = await results(ranking_options={"ranker": "auto", "score_threshold": likeness[-1]})
    assert [found.score for found in near] == likeness[-1:]
    text, none = await results(filters={"type": "eq", "key": "year", "value": 1999})
    assert not none and "not in the documents" in text


async def test_a_stream_tells_in_typed_events_what_the_response_holds(asked: Gateway) -> None:
    async with asked.sdk().responses.stream(model="kb/manuals", input=QUESTION) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    types = [str(event.type) for event in events]
    assert types[:2] == ["response.created", "response.in_progress"] and types[-1] == "response.completed"
    order = [
        "response.file_search_call.searching",
        "response.file_search_call.completed",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.annotation.added",
        "response.output_text.done",
        "response.content_part.done",
    ]
    assert [types.index(kind) for kind in order] == sorted(types.index(kind) for kind in order)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == final.output_text


async def test_a_model_that_finds_no_end_is_stopped_and_its_response_incomplete(
    tmp_path: Path, smollm2_tokenizer: Tokenizer
) -> None:
    async with with_model(tmp_path / "home", smollm2_tokenizer, Replies("and so on " * 999)) as gateway:
        bound = gateway.context.settings.gateway.response_tokens
        for asked, given in [(None, bound), (9, 9), (bound + 100, bound + 100)]:
            response = await gateway.sdk().responses.create(model=MODEL, input="Write.", max_output_tokens=asked)
            assert response.status == "incomplete" and response.incomplete_details is not None
            assert response.incomplete_details.reason == "max_output_tokens"
            assert response.usage is not None and response.usage.output_tokens == given
            assert response.max_output_tokens == asked


async def test_a_response_goes_on_from_the_one_before(tmp_path: Path, smollm2_tokenizer: Tokenizer) -> None:
    replies = Replies("Pumps are heavy.", "You asked of pumps.")
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies) as gateway:
        sdk = gateway.sdk()
        first = await sdk.responses.create(model=MODEL, input="Tell me of pumps.", instructions="Be short.")
        second = await sdk.responses.create(model=MODEL, input="What did I ask?", previous_response_id=first.id)
        assert second.output_text == "You asked of pumps." and second.previous_response_id == first.id
        prompt = smollm2_tokenizer.decode(replies.prompts[1].prompt_tokens)
        assert "Tell me of pumps." in prompt and "Pumps are heavy." in prompt and "Be short." not in prompt
        items = (await sdk.responses.input_items.list(second.id)).data
        assert len(items) == 1
        with pytest.raises(openai.NotFoundError, match="resp_none"):
            await sdk.responses.create(model=MODEL, input="And?", previous_response_id="resp_none")
        with pytest.raises(openai.NotFoundError, match=f"No response '{first.id}' was found"):
            await gateway.sdk(gateway.other_key).responses.retrieve(first.id)


async def test_the_clients_functions_are_called_and_answered(tmp_path: Path, smollm2_tokenizer: Tokenizer) -> None:
    calling = '<tool_call>\n{"name": "weigh", "arguments": {"thing": "pump"}}\n</tool_call>'
    replies = Replies(calling, "It weighs 41 kilograms.")
    weigh: dict[str, Any] = {"type": "object", "properties": {"thing": {"type": "string"}}}
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies) as gateway:
        sdk = gateway.sdk()
        async with sdk.responses.stream(
            model=MODEL,
            input=QUESTION,
            tools=[{"type": "function", "name": "weigh", "parameters": weigh, "strict": True}],
        ) as stream:
            types = [event.type async for event in stream]
            response = await stream.get_final_response()
        assert "response.function_call_arguments.delta" in types and "response.function_call_arguments.done" in types
        call = response.output[0]
        assert call.type == "function_call" and call.name == "weigh" and call.arguments == '{"thing": "pump"}'
        told = await sdk.responses.create(
            model=MODEL,
            previous_response_id=response.id,
            input=[{"type": "function_call_output", "call_id": call.call_id, "output": "41 kg"}],
        )
        assert told.output_text == "It weighs 41 kilograms."
        assert "41 kg" in smollm2_tokenizer.decode(replies.prompts[1].prompt_tokens)


async def test_mcp_tools_are_called_in_between_and_their_results_read(
    tmp_path: Path, manual: Path, smollm2_tokenizer: Tokenizer
) -> None:
    search = '<tool_call>\n{"name": "readahead__kb_search", "arguments": {"query": "weight of the pump"}}\n</tool_call>'
    clock = '<tool_call>\n{"name": "clock__get_current_time", "arguments": {"timezone": "Mars"}}\n</tool_call>'
    replies = Replies(search, clock, "It weighs 41 kilograms.")
    server = McpServerSettings(
        name="clock", command=sys.executable, args=("-m", "mcp_server_time"), approved=("get_current_time",)
    )
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies, [server]) as gateway:
        await add_document(gateway, "manuals", manual)
        response = await gateway.sdk().responses.create(
            model=MODEL,
            input=QUESTION,
            tools=[
                {"type": "mcp", "server_label": "readahead", "allowed_tools": ["kb_search"]},
                {"type": "mcp", "server_label": "clock", "require_approval": "never"},
            ],
        )
    assert response.output_text == "It weighs 41 kilograms."
    kinds = [item.type for item in response.output]
    assert kinds == ["mcp_list_tools", "mcp_list_tools", "mcp_call", "mcp_call", "message"]
    listed, _, found, failed, _ = response.output
    assert listed.type == "mcp_list_tools" and [tool.name for tool in listed.tools] == ["kb_search"]
    assert found.type == "mcp_call" and found.name == "kb_search" and "41 kilograms" in (found.output or "")
    assert failed.type == "mcp_call" and failed.status == "failed" and failed.error is not None
    assert "41 kilograms" in smollm2_tokenizer.decode(replies.prompts[1].prompt_tokens)


def searching(query: str) -> str:
    return f'<tool_call>\n{{"name": "readahead__kb_search", "arguments": {{"query": "{query}"}}}}\n</tool_call>'


OWN: Any = [{"type": "mcp", "server_label": "readahead"}]
WEIGHT = "The Halden pump weighs 41 kilograms without its frame."


async def test_what_a_model_says_of_passages_that_it_searched_for_is_cited_as_answers_from_documents_are(
    tmp_path: Path, manual: Path, smollm2_tokenizer: Tokenizer
) -> None:
    said = f"I have looked. {WEIGHT} It is painted green and costs 900 euros."
    replies = Replies(searching("weight of the pump"), said)
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies) as gateway:
        ids = await add_document(gateway, "manuals", manual)
        sdk = gateway.sdk()
        async with sdk.responses.stream(model=MODEL, input=QUESTION, tools=OWN) as stream:
            kinds = [event.type async for event in stream]
            made = await stream.get_final_response()
        replies.texts, replies.prompts = [searching("colour of the pump"), "It is green and costs 900 euros."], []
        unfounded = await sdk.responses.create(model=MODEL, input="What colour is the Halden pump?", tools=OWN)
    message = made.output[-1]
    assert message.type == "message" and message.content[0].type == "output_text" and made.output_text == said
    [cited] = [annotation.to_dict() for annotation in message.content[0].annotations]
    assert (cited["type"], cited["file_id"], cited["filename"]) == ("file_citation", ids["file"], "manual.pdf")
    assert (cited["page"], cited["quote"]) == (1, WEIGHT) and cited["boxes"]
    assert said[int(str(cited["answer_start"])) : int(str(cited["answer_end"]))] == WEIGHT
    assert kinds.index("response.output_text.annotation.added") < kinds.index("response.output_text.done")
    assert (unfounded.model_extra or {})["readahead"]["notes"] == [UNSUPPORTED]


async def test_a_model_that_calls_tools_for_ever_is_made_to_answer(
    tmp_path: Path, manual: Path, smollm2_tokenizer: Tokenizer
) -> None:
    replies = Replies(*(searching(f"pump {number}") for number in range(4)))
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies) as gateway:
        await add_document(gateway, "manuals", manual)
        response = await gateway.sdk().responses.create(
            model=MODEL, input=QUESTION, max_tool_calls=3, tools=[{"type": "mcp", "server_label": "readahead"}]
        )
    assert [item.type for item in response.output].count("mcp_call") == 3
    assert response.output[-1].type == "message" and len(replies.prompts) == 4


async def test_a_model_that_calls_a_tool_again_with_the_same_arguments_has_to_answer(
    tmp_path: Path, manual: Path, smollm2_tokenizer: Tokenizer
) -> None:
    replies = Replies(searching("pump"), searching("oil"), searching("pump"), WEIGHT)
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies) as gateway:
        await add_document(gateway, "manuals", manual)
        response = await gateway.sdk().responses.create(model=MODEL, input=QUESTION, tools=OWN)
    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "mcp_call", "message"]
    assert response.output_text == WEIGHT
    [note] = (response.model_extra or {})["readahead"]["notes"]
    assert "kb_search was called again" in note


async def test_tools_are_called_for_as_long_as_a_run_may_take_and_then_the_model_answers(
    tmp_path: Path, manual: Path, smollm2_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = Replies(searching("pump"), WEIGHT)
    left = iter([60.0, 60.0])
    monkeypatch.setattr(Budget, "remaining_s", property(lambda _: next(left, 0.0)))
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies) as gateway:
        await add_document(gateway, "manuals", manual)
        response = await gateway.sdk().responses.create(model=MODEL, input=QUESTION, tools=OWN)
    assert [item.type for item in response.output][:2] == ["mcp_list_tools", "mcp_call"] and len(replies.prompts) == 2
    [note] = (response.model_extra or {})["readahead"]["notes"]
    assert "seconds for calls of tools were spent" in note


async def test_a_response_in_the_background_is_followed_later_and_cancelled(tmp_path: Path, manual: Path) -> None:
    gate = Gate()
    llm = ScriptedLanguageModel([ANSWER], hold=gate.hold)
    async with asyncio.timeout(60), running_gateway(tmp_path / "home", llm=llm) as gateway:
        await add_document(gateway, "manuals", manual)
        sdk = gateway.sdk()
        begun = await sdk.responses.create(model="kb/manuals", input=QUESTION, background=True)
        assert begun.status == "in_progress"
        await gate.reached.wait()
        cancelled = await sdk.responses.cancel(begun.id)
        assert cancelled.status == "cancelled" and gate.ended.is_set()
        gate.opened.set()
        again = await sdk.responses.create(model="kb/manuals", input=QUESTION, background=True)
        stream = await sdk.responses.retrieve(again.id, stream=True, starting_after=1)
        events = [event async for event in stream]
        assert events[0].sequence_number == 2 and events[-1].type == "response.completed"
        await sdk.responses.delete(again.id)
        with pytest.raises(openai.NotFoundError):
            await sdk.responses.retrieve(again.id)


async def test_leaving_a_response_ends_its_work_at_the_model(tmp_path: Path, manual: Path) -> None:
    gate = Gate()
    llm = ScriptedLanguageModel([ANSWER], hold=gate.hold)
    async with asyncio.timeout(60), running_gateway(tmp_path / "home", llm=llm) as gateway:
        await add_document(gateway, "manuals", manual)
        asking = asyncio.create_task(gateway.sdk().responses.create(model="kb/manuals", input=QUESTION))
        await gate.reached.wait()
        asking.cancel()
        await gate.ended.wait()


async def test_what_is_not_to_be_stored_is_gone(asked: Gateway) -> None:
    response = await asked.sdk().responses.create(model="kb/manuals", input=QUESTION, store=False)
    assert response.output_text
    with pytest.raises(openai.NotFoundError):
        await asked.sdk().responses.retrieve(response.id)


async def test_a_failure_keeps_its_code(gateway: Gateway) -> None:
    await gateway.sdk().vector_stores.create(name="manuals")
    response = await gateway.sdk().responses.create(model="kb/manuals", input=QUESTION)
    assert response.status == "failed" and response.error is not None
    assert str(response.error.code) == "knowledge_base_empty"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tools": [{"type": "mcp", "server_label": "evil", "server_url": "http://169.254.169.254/mcp"}]}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"background": True, "store": False}, "background"),
        ({"input": [{"role": "assistant", "content": "Hello."}]}, "input"),
        ({"conversation": "conv_1", "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"stream": "yes"}, "stream"),
        ({"tools": [{**SEARCH, "vector_store_ids": ["vs_1", "vs_2"]}]}, "tools[0].vector_store_ids"),
        ({"tools": [SEARCH, {"type": "function", "name": "weigh"}]}, "tools"),
        ({"tools": [{**SEARCH, "filters": {"type": "like", "key": "a", "value": "b"}}]}, "tools[0]"),
        (
            {
                "tools": [{**SEARCH, "ranking_options": {"score_threshold": 0.5}}],
                "readahead": {"route": "cag"},
            },
            "readahead.route",
        ),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(gateway: Gateway, body: dict[str, Any], param: str) -> None:
    answer = await gateway.http().post("/v1/responses", json={"model": "any", "input": "Hi", **body})
    assert answer.status_code == 400, answer.text
    assert (answer.json()["error"]["param"] or "").startswith(param), answer.text


LOG_SERVER = """
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
server = MCPServer("log", log_level="ERROR")
@server.tool()
def enter(pump: str) -> str:
    return f"entered {pump}"
@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def last() -> str:
    return "3 May"
server.run("stdio")
"""
LOG = McpServerSettings(name="log", command=sys.executable, args=("-c", LOG_SERVER), connect_s=60)
ENTER = '<tool_call>\n{"name": "log__enter", "arguments": {"pump": "Halden"}}\n</tool_call>'
LAST = '<tool_call>\n{"name": "log__last", "arguments": {}}\n</tool_call>'


def log_tool(**values: Any) -> Any:
    return {"type": "mcp", "server_label": "log", **values}


async def test_a_call_that_may_change_something_waits_for_the_clients_word_and_is_then_made_once(
    tmp_path: Path, smollm2_tokenizer: Tokenizer
) -> None:
    replies = Replies(f"{LAST}\n{ENTER}", "It is entered.")
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies, [LOG]) as gateway:
        responses = gateway.sdk().responses
        tools = [log_tool(require_approval={"never": {"read_only": True}})]
        asked = await responses.create(model=MODEL, input="Enter the pump.", tools=tools)
        listed, read, request = asked.output
        assert listed.type == "mcp_list_tools" and {tool.name for tool in listed.tools} == {"enter", "last"}
        assert read.type == "mcp_call" and read.output == "3 May"
        assert request.type == "mcp_approval_request" and (request.server_label, request.name) == ("log", "enter")
        assert json.loads(request.arguments) == {"pump": "Halden"}

        def word(*, approve: bool) -> Any:
            return {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}

        made = await responses.create(
            model=MODEL, input=[word(approve=True)], tools=tools, previous_response_id=asked.id
        )
        [call] = [item for item in made.output if item.type == "mcp_call"]
        assert call.output == "entered Halden" and call.approval_request_id == request.id
        assert made.output_text == "It is entered."
        assert "entered Halden" in smollm2_tokenizer.decode(replies.prompts[1].prompt_tokens)
        for body, told in (
            ({"input": [word(approve=True)], "previous_response_id": made.id}, "was decided before"),
            ({"input": [word(approve=True)], "previous_response_id": asked.id}, "was decided before"),
            ({"input": [word(approve=False)], "previous_response_id": asked.id}, "was decided before"),
            ({"input": [word(approve=True)]}, "is not in the conversation"),
        ):
            with pytest.raises(openai.BadRequestError, match=told):
                await responses.create(model=MODEL, tools=tools, **body)
        whole: Any = [
            {"role": "user", "content": "Enter the pump."},
            *(item.to_dict() for item in asked.output),
            word(approve=True),
            *(item.to_dict() for item in made.output),
            {"role": "user", "content": "Thank you."},
        ]
        last = await responses.create(model=MODEL, input=whole, tools=tools)  # a client that keeps all by itself
        assert [item.type for item in last.output] == ["mcp_list_tools", "message"], last.error


async def test_only_who_may_write_is_asked_and_without_asking_such_tools_are_not_there(
    tmp_path: Path, smollm2_tokenizer: Tokenizer
) -> None:
    replies = Replies(LAST, "It was on 3 May.")
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies, [LOG]) as gateway:
        reading, _ = await gateway.context.tenants.create_key("acme", scopes=["read"])
        with pytest.raises(openai.PermissionDeniedError, match="write"):
            await gateway.sdk(reading).responses.create(
                model=MODEL, input="Enter.", tools=[log_tool(require_approval="always")]
            )
        for wanted in ({}, {"require_approval": "never"}):
            answer = await gateway.sdk(reading).responses.create(model=MODEL, input="When?", tools=[log_tool(**wanted)])
            listed = answer.output[0]
            assert listed.type == "mcp_list_tools" and [tool.name for tool in listed.tools] == ["last"]
            assert answer.output_text == "It was on 3 May."
        replies.prompts.clear()
        asked = await gateway.sdk().responses.create(
            model=MODEL, input="When?", tools=[log_tool(require_approval="always")]
        )
        assert asked.output[-1].type == "mcp_approval_request"
