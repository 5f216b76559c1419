"""The knowledge server at /mcp, spoken to by the official client over HTTP, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import INVALID_PARAMS, CallToolResult, TextContent, TextResourceContents

from readahead_agents.llm.scripted import ScriptedCall, ScriptedLanguageModel
from readahead_agents.mcp import knowledge
from readahead_platform.gateway import mcp_sessions
from readahead_platform.routing.reading_speed import ReadingSpeed
from tests.platform.gateway import Gateway, add_document, running_gateway
from tests.retrieval import pdf_samples as samples

ERAS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
"""What the client is told, and the version of the protocol that the two then speak."""
READING = ["doc_read", "job_get", "kb_ask", "kb_grep", "kb_list", "kb_search"]
WRITING = ["doc_add", "doc_delete"]


@asynccontextmanager
async def mcp_client(gateway: Gateway, key: str | None = None, mode: str = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key or gateway.key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{gateway.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, _text(result)
    content: dict[str, Any] | None = result.structured_content
    assert content is not None
    return content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """The message of a call that fails."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return _text(result)


def _text(result: CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


@pytest.fixture
async def ids(gateway: Gateway, manual: Path) -> dict[str, str]:
    return await add_document(gateway, "manuals", manual)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_of_either_era_searches_reads_and_asks(
    gateway: Gateway, ids: dict[str, str], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def measured(*_: object) -> float:
        return 0.01

    monkeypatch.setattr(ReadingSpeed, "seconds_per_token", measured)  # the model's server is a stand-in

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with mcp_client(gateway, mode=mode) as client:
        assert client.protocol_version == ERAS[mode]
        listed = await call(client, "kb_list", kb="manuals")
        assert [document["id"] for document in listed["documents"]] == [ids["document"]]
        found = await call(client, "kb_search", query="How heavy is the Halden pump?")
        assert (found["results"][0]["page"], found["results"][0]["document_id"]) == (1, ids["document"])
        read = await call(client, "doc_read", document_id=ids["document"], pages="2")
        assert "600 hours" in read["pages"][0]["text"]
        asked = await client.call_tool(
            "kb_ask", {"question": "How heavy is the Halden pump?"}, progress_callback=progress
        )
    answer = asked.structured_content
    assert answer is not None and answer["route"] == "rag" and answer["in_documents"]
    assert {cited["page"] for cited in answer["citations"]} == {1}
    assert answer["facts"]["question_kind"] == "fact" and answer["facts"]["evidence_document"] == "manual.pdf"
    assert answer["estimate_s"] > 0 and any(f"about {answer['estimate_s']:g} seconds away" in each for each in told)
    assert any("passages" in message for message in told)


async def test_tools_come_in_the_order_of_their_names_with_schemas_for_what_they_return(gateway: Gateway) -> None:
    async with mcp_client(gateway) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == READING + WRITING
    assert all(tool.output_schema and tool.description and tool.annotations for tool in tools)
    assert [tool.name for tool in tools if not (tool.annotations and tool.annotations.read_only_hint)] == WRITING


async def test_a_key_that_may_only_read_has_no_tool_that_writes(gateway: Gateway, ids: dict[str, str]) -> None:
    key, _ = await gateway.context.tenants.create_key("acme", scopes=["read"])
    async with mcp_client(gateway, key) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == READING
        assert "doc_delete" in await refused(client, "doc_delete", document_id=ids["document"])
        job = await call(client, "job_get", job_id=ids["document"].replace("doc_", "job_"))
        assert job["document"]["state"] == "searchable"


async def test_a_document_is_added_followed_replaced_and_deleted(
    gateway: Gateway, manual: Path, tmp_path: Path
) -> None:
    await gateway.sdk().vector_stores.create(name="manuals")
    content = await asyncio.to_thread(lambda: base64.b64encode(manual.read_bytes()).decode())
    async with mcp_client(gateway) as client:
        added = await call(client, "doc_add", kb="manuals", name="manual.pdf", content_base64=content)
        async for document in gateway.context.library.watch("acme", added["document"]["id"]):
            last = document
        job = await call(client, "job_get", job_id=added["job_id"])
        assert last.state == job["document"]["state"] == "searchable" and job["position"] is None
        assert (await call(client, "kb_grep", pattern="41 kilograms"))["matches"]
        newer = samples.write_pdf(tmp_path / "newer.pdf", samples.lines("The Halden pump weighs 44 kilograms."))
        new = base64.b64encode(await asyncio.to_thread(newer.read_bytes)).decode()
        added = await call(client, "doc_add", kb="manuals", name="manual.pdf", content_base64=new, replace=True)
        async for _ in gateway.context.library.watch("acme", added["document"]["id"]):
            pass
        listed = (await call(client, "kb_list", kb="manuals"))["documents"]
        assert [document["id"] for document in listed] == [added["document"]["id"]]
        assert (await call(client, "kb_grep", pattern="44 kilograms"))["matches"]
        await call(client, "doc_delete", document_id=added["document"]["id"])
        assert (await call(client, "kb_grep", pattern="4[14] kilograms", regex=True))["matches"] == []
        assert "no base64" in await refused(client, "doc_add", kb="manuals", name="a.pdf", content_base64="***")


async def test_lines_are_found_exactly_or_by_expression_and_in_pages(gateway: Gateway, ids: dict[str, str]) -> None:
    async with mcp_client(gateway) as client:
        exact = await call(client, "kb_grep", pattern="32, about", kb="manuals")
        assert [(line["page"], line["line"]) for line in exact["matches"]] == [(2, 1)]
        by_regex = await call(client, "kb_grep", pattern=r"\d+ (hours|months)", regex=True)
        assert [line["page"] for line in by_regex["matches"]] == [2, 3]
        assert (await call(client, "kb_grep", pattern="nowhere"))["note"] == "No line of 'manuals' matches."
        assert "regex=true" in (await call(client, "kb_grep", pattern=r"\d+ hours"))["note"]
        assert "regex=true" not in (await call(client, "kb_grep", pattern="nowhere.*", regex=True))["note"]
        assert "'(' is no regular expression" in await refused(client, "kb_grep", pattern="(", regex=True)
        behind = await refused(client, "kb_grep", pattern="(?<!4)1", regex=True)
        assert behind.endswith("that can be run: invalid perl operator: (?<!.")
        assert "none of ours" in await refused(client, "kb_grep", pattern="pump", cursor="x")


async def test_what_a_person_took_out_of_answers_is_shown_by_no_tool(gateway: Gateway, ids: dict[str, str]) -> None:
    library = gateway.context.library
    [oil] = [one for one in await library.chunks.list("acme", ids["document"]) if "600 hours" in one.text]
    await library.chunks.set_disabled("acme", ids["document"], oil.id, disabled=True)
    async with mcp_client(gateway) as client:
        read = await call(client, "doc_read", document_id=ids["document"])
        assert [page["page"] for page in read["pages"]] == [1, 2, 3]
        resource = await client.read_resource(read["pages"][1]["uri"])
        lines = await call(client, "kb_grep", pattern="600 hours")
    assert "600 hours" not in str(read) + str(resource) + str(lines["matches"])
    assert "41 kilograms" in read["pages"][0]["text"]


async def test_reading_names_pages_that_are_not_there(gateway: Gateway, ids: dict[str, str]) -> None:
    async with mcp_client(gateway) as client:
        whole = await call(client, "doc_read", document_id=ids["document"])
        assert [page["page"] for page in whole["pages"]] == [1, 2, 3] and whole["next_cursor"] is None
        beyond = await refused(client, "doc_read", document_id=ids["document"], pages="7")
        assert beyond.endswith(": There is no page 7 in manual.pdf, which has 3 pages.")
        assert "cannot be read" in await refused(client, "doc_read", document_id=ids["document"], pages="five")


async def in_parts(client: Client, tool: str, part: str, **arguments: Any) -> list[list[dict[str, Any]]]:
    """What a tool tells, call by call, each with the cursor of the one before."""
    parts, cursor = [], None
    while True:
        told = await call(client, tool, **arguments, cursor=cursor)
        parts.append(told[part])
        cursor = told["next_cursor"]
        if cursor is None:
            return parts
        assert len(parts) < 50, "it finds no end"


async def test_what_comes_in_parts_is_whole_when_each_cursor_is_handed_back(
    gateway: Gateway, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("second", "third"):
        await gateway.sdk().vector_stores.create(name=name)
    note = samples.write_pdf(tmp_path / "note.pdf", samples.lines("The frame weighs 9 kilograms."))
    async with mcp_client(gateway) as client:
        content = base64.b64encode(note.read_bytes()).decode()
        await call(client, "doc_add", kb="manuals", name="note.pdf", content_base64=content)
        read = (await call(client, "doc_read", document_id=ids["document"]))["pages"]
        grepped = (await call(client, "kb_grep", pattern="the", kb="manuals"))["matches"]
        for bound, most in (("KBS_LISTED", 2), ("DOCUMENTS_LISTED", 1), ("LINES_LISTED", 1), ("READ_CHARS", 50)):
            monkeypatch.setattr(knowledge, bound, most)
        bases = await in_parts(client, "kb_list", "knowledge_bases")
        assert [[kb["name"] for kb in part] for part in bases] == [["manuals", "second"], ["third"]]
        documents = await in_parts(client, "kb_list", "documents", kb="manuals")
        assert [[one["name"] for one in part] for part in documents] == [["manual.pdf"], ["note.pdf"]]
        lines = await in_parts(client, "kb_grep", "matches", pattern="the", kb="manuals")
        assert {len(part) for part in lines} == {1} and len(lines) > 2
        assert [line["text"] for part in lines for line in part][: len(grepped)] == [line["text"] for line in grepped]
        pages: dict[int, str] = {}
        for part in await in_parts(client, "doc_read", "pages", document_id=ids["document"]):
            assert sum(len(page["text"]) for page in part) <= 50
            for page in part:
                pages[page["page"]] = pages.get(page["page"], "") + page["text"]
        assert pages == {page["page"]: page["text"] for page in read}
        monkeypatch.setattr(knowledge, "PAGES_READ", 2)
        monkeypatch.setattr(knowledge, "READ_CHARS", 16_000)
        whole = await in_parts(client, "doc_read", "pages", document_id=ids["document"])
        assert [[page["page"] for page in part] for part in whole] == [[1, 2], [3]]


async def text_of(client: Client, uri: str) -> str:
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


async def test_resources_come_in_parts_too_and_say_where_they_go_on(
    gateway: Gateway, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    second = await gateway.sdk().vector_stores.create(name="second")
    async with mcp_client(gateway) as client:
        page = f"doc://{ids['document']}/page/2"
        whole = await text_of(client, page)
        for bound, most in (("KBS_LISTED", 1), ("DOCUMENTS_LISTED", 1), ("READ_CHARS", 60)):
            monkeypatch.setattr(knowledge, bound, most)
        first = await client.list_resources()
        rest = await client.list_resources(cursor=first.next_cursor)
        uris = [str(each.uri) for each in (*first.resources, *rest.resources)]
        assert uris == [f"kb://{ids['store']}", f"kb://{second.id}"] and rest.next_cursor is None
        with pytest.raises(MCPError, match="none of ours") as refusal:
            await client.list_resources(cursor="x")
        assert refusal.value.code == INVALID_PARAMS
        read = ""
        while page:
            text, _, page = (await text_of(client, page)).partition("\n[The page goes on: ")
            assert len(text) <= 60
            read, page = read + text, page.removesuffix("]")
        assert read == whole
        beyond = json.loads(await text_of(client, f"kb://{ids['store']}?cursor=1"))
        assert beyond["documents"] == [] and beyond["knowledge_bases"][0]["name"] == "manuals"


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("doc_read", {"doc": "doc_1"}, "`document_id`: field required. It takes `document_id`, `pages`, `cursor`."),
        ("kb_search", {"query": "pump", "top_k": 99}, "`top_k`: input should be less than or equal to 20."),
        ("kb_search", {"query": "pump", "topk": 2}, "`topk`: no such argument. It takes `query`, `kb`, `top_k`, "),
        ("kb_ask", {"question": "Why?", "route": "fast"}, "`route`: input should be 'auto'"),
    ],
)
async def test_a_call_with_wrong_arguments_is_told_in_words_what_the_tool_takes(
    gateway: Gateway, tool: str, arguments: dict[str, Any], told: str
) -> None:
    async with mcp_client(gateway) as client:
        message = await refused(client, tool, **arguments)
    assert message.startswith(f"{tool} can't take these arguments") and told in message
    assert "pydantic" not in message and "\n" not in message


async def test_what_belongs_to_another_tenant_is_not_found_by_any_tool_or_resource(
    gateway: Gateway, ids: dict[str, str]
) -> None:
    document = ids["document"]
    async with mcp_client(gateway, gateway.other_key) as client:
        assert (await call(client, "kb_list"))["knowledge_bases"] == []
        assert (await client.list_resources()).resources == []
        for tool, arguments in (
            ("kb_list", {"kb": ids["store"]}),
            ("kb_search", {"query": "pump", "kb": "manuals"}),
            ("kb_grep", {"pattern": "pump", "kb": ids["store"]}),
            ("kb_ask", {"question": "How heavy is the pump?", "kb": "manuals"}),
            ("doc_read", {"document_id": document}),
            ("job_get", {"job_id": document.replace("doc_", "job_")}),
            ("doc_add", {"kb": "manuals", "name": "a.pdf", "content_base64": ""}),
            ("doc_delete", {"document_id": document}),
        ):
            assert "was found" in await refused(client, tool, **arguments), tool
        unknown = document.replace("doc_", "job_")
        assert f"No job '{unknown}' was found" in await refused(client, "job_get", job_id=unknown)
        for uri in (f"kb://{ids['store']}", f"doc://{document}", f"doc://{document}/page/1"):
            with pytest.raises(MCPError, match="was found"):
                await client.read_resource(uri)


async def test_resources_and_prompts_show_the_same_documents(gateway: Gateway, ids: dict[str, str]) -> None:
    async with mcp_client(gateway) as client:
        assert [str(each.uri) for each in (await client.list_resources()).resources] == [f"kb://{ids['store']}"]
        page = (await client.read_resource(f"doc://{ids['document']}/page/3")).contents[0]
        assert isinstance(page, TextResourceContents) and "30 months" in page.text
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert prompts == ["ask_with_citations", "summarize_document", "compare_documents"]
        prompt = await client.get_prompt("ask_with_citations", {"question": "How heavy?", "kb": "manuals"})
        assert isinstance(prompt.messages[0].content, TextContent) and "How heavy?" in prompt.messages[0].content.text
        for name, arguments, named in (
            ("ask_with_citations", None, "needs 'question', 'kb'"),
            ("ask_with_citations", {"kb": "manuals"}, "needs 'question'"),
            ("ask", None, "no prompt 'ask'; there are ask_with_citations"),
        ):
            with pytest.raises(MCPError, match=named) as refusal:
                await client.get_prompt(name, arguments)
            assert refusal.value.code == INVALID_PARAMS


async def test_a_call_without_a_key_is_told_how_to_send_one(gateway: Gateway) -> None:
    http = gateway.http("")
    answer = await http.post("/mcp", json={})
    assert answer.status_code == 401 and answer.json()["error"]["code"] == "missing_api_key"
    challenge = answer.headers["www-authenticate"]
    assert challenge == f'Bearer resource_metadata="{gateway.url}/.well-known/oauth-protected-resource/mcp"'
    metadata = (await http.get("/.well-known/oauth-protected-resource/mcp")).json()
    assert metadata["resource"] == f"{gateway.url}/mcp" and metadata["scopes_supported"] == ["read", "write"]
    missing = await http.get("/.well-known/oauth-authorization-server")
    assert missing.status_code == 404 and missing.json()["error"]["code"] == "unknown_url"


ACCEPTS = {"Accept": "application/json, text/event-stream"}
OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


async def test_sessions_of_one_tenant_take_no_room_of_another(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_sessions, "MAX_SESSIONS_OF_TENANT", 2)
    http, other = gateway.http(), gateway.http(gateway.other_key)
    opened = [await http.post("/mcp", json=OPENING, headers=ACCEPTS) for _ in range(3)]
    assert [answer.status_code for answer in opened] == [200, 200, 429]
    assert opened[2].json()["error"]["code"] == "too_many_sessions"
    assert (await other.post("/mcp", json=OPENING, headers=ACCEPTS)).status_code == 200
    async with mcp_client(gateway) as modern:  # needs no session
        assert (await modern.list_tools()).tools
    ending = {**ACCEPTS, "Mcp-Session-Id": opened[0].headers["mcp-session-id"]}
    assert (await http.delete("/mcp", headers=ending)).status_code == 200
    assert (await http.post("/mcp", json=OPENING, headers=ACCEPTS)).status_code == 200


async def test_a_session_serves_no_other_key_and_an_unknown_one_is_not_found(gateway: Gateway) -> None:
    opened = await gateway.http().post("/mcp", json=OPENING, headers=ACCEPTS)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25", **ACCEPTS}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    assert (await gateway.http().post("/mcp", json=listing, headers=session)).status_code == 200
    assert (await gateway.http(gateway.other_key).post("/mcp", json=listing, headers=session)).status_code == 404
    unknown = {**session, "Mcp-Session-Id": "0" * 32}
    assert (await gateway.http().post("/mcp", json=listing, headers=unknown)).status_code == 404


def stdio_server(gateway: Gateway, home: Path, key: str) -> StdioServerParameters:
    variables = {"READAHEAD_URL": gateway.url, "READAHEAD_API_KEY": key, "READAHEAD_HOME": str(home)}
    arguments = ["-m", "readahead_platform.cli", "mcp", "--stdio"]
    return StdioServerParameters(command=sys.executable, args=arguments, env={**os.environ, **variables})


async def test_a_client_that_starts_programs_reaches_the_same_tools(
    gateway: Gateway, ids: dict[str, str], tmp_path: Path
) -> None:
    told: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with Client(stdio_client(stdio_server(gateway, tmp_path, gateway.key))) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == READING + WRITING
        asked = await client.call_tool(
            "kb_ask", {"question": "How heavy is the Halden pump?"}, progress_callback=progress
        )
        assert asked.structured_content is not None and asked.structured_content["citations"][0]["page"] == 1
        assert told
        assert "was found" in await refused(client, "doc_read", document_id="doc_none")
        with pytest.raises(MCPError, match="was found"):
            await client.read_resource("kb://nowhere")
        assert [str(each.uri) for each in (await client.list_resources()).resources] == [f"kb://{ids['store']}"]


@asynccontextmanager
async def any_client(gateway: Gateway, home: Path, way: str) -> AsyncIterator[Client]:
    """In either era over HTTP, or over a program's standard input and output."""
    if way == "stdio":
        async with Client(stdio_client(stdio_server(gateway, home, gateway.key))) as client:
            yield client
    else:
        async with mcp_client(gateway, mode=way) as client:
            yield client


@pytest.mark.parametrize("way", [*ERAS, "stdio"])
async def test_a_client_that_gives_up_ends_the_work_at_the_model(tmp_path: Path, manual: Path, way: str) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def hold(_: ScriptedCall) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    llm = ScriptedLanguageModel(["The pump weighs 41 kilograms."], hold=hold)
    async with running_gateway(tmp_path / "home", llm=llm) as gateway:
        await add_document(gateway, "manuals", manual)
        async with any_client(gateway, tmp_path, way) as client:
            asking = asyncio.create_task(client.call_tool("kb_ask", {"question": "How heavy is the Halden pump?"}))
            async with asyncio.timeout(30):
                await asked.wait()
                asking.cancel()
                await ended.wait()


async def test_a_key_that_may_only_read_asks_and_searches_but_changes_nothing(
    gateway: Gateway, ids: dict[str, str]
) -> None:
    key, record = await gateway.context.tenants.create_key("acme", scopes=["read"])
    http = gateway.http(key)
    question = {"model": "kb/manuals", "messages": [{"role": "user", "content": "How heavy is the Halden pump?"}]}
    assert (await http.post("/v1/chat/completions", json=question)).status_code == 200
    assert (await http.post(f"/v1/vector_stores/{ids['store']}/search", json={"query": "pump"})).status_code == 200
    assert (await http.post(f"/v1/vector_stores/{ids['store']}/retrieval_test", json={"query": "pump"})).is_success
    run = await http.post("/v1/agent/runs", json={"kb": "manuals", "question": "How heavy is the Halden pump?"})
    assert (await http.post(f"/v1/agent/runs/{run.json()['id']}/cancel")).status_code == 200
    for method, path, body in (
        ("POST", "/v1/vector_stores", {"name": "mine"}),
        ("DELETE", f"/v1/vector_stores/{ids['store']}", None),
        ("DELETE", f"/v1/files/{ids['file']}", None),
        ("POST", "/v1/keys", {}),
        ("DELETE", f"/v1/keys/{record.id}", None),
        ("POST", "/v1/packs", {}),
    ):
        answer = await http.request(method, path, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "insufficient_scope"), path
    made = await gateway.http().post("/v1/keys", json={"scopes": ["read"]})
    assert made.json()["scopes"] == ["read"]
