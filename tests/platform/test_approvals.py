"""Calls of MCP tools that wait for the client's word in /v1/responses: each is decided once, and made once."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import openai

from readahead_agents.mcp.server_settings import McpServerSettings
from readahead_serving.model.tokenizer import Tokenizer
from tests.platform.test_responses import ENTER, Replies, log_tool, with_model
from tests.serving.scripted import MODEL

WRITING_SERVER = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("log", log_level="ERROR")
@server.tool()
def enter(pump: str) -> str:
    with open(sys.argv[1], "a") as file:
        print(pump, file=file)
    return f"entered {pump}"
@server.tool()
def last() -> str:
    return "3 May"
server.run("stdio")
"""
TOOLS = [log_tool(require_approval="always")]


def writing(file: Path) -> McpServerSettings:
    return McpServerSettings(name="log", command=sys.executable, args=("-c", WRITING_SERVER, str(file)), connect_s=60)


def word(request: str, *, approve: bool = True) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": request, "approve": approve}


def asking(request: str) -> dict[str, Any]:
    arguments = '{"pump": "Halden"}'
    return {
        "type": "mcp_approval_request",
        "id": request,
        "server_label": "log",
        "name": "enter",
        "arguments": arguments,
    }


async def test_a_call_is_made_once_however_often_it_is_approved_and_wherever(
    tmp_path: Path, smollm2_tokenizer: Tokenizer
) -> None:
    file, replies = tmp_path / "entered", Replies(ENTER, "It is entered.")
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies, [writing(file)]) as gateway:
        sdk = gateway.sdk()
        asked = await sdk.responses.create(model=MODEL, input="Enter the pump.", tools=TOOLS)
        request = asked.output[-1].id
        assert request is not None
        made = await sdk.conversations.create(extra_body={"items": [asking(request)]})
        branches: list[dict[str, Any]] = [
            {"input": [word(request)], "previous_response_id": asked.id},
            {"input": [word(request)], "previous_response_id": asked.id},
            {"input": [word(request)], "conversation": made.id},
            {"input": [{"role": "user", "content": "Enter the pump."}, asking(request), word(request)]},
        ]
        told = await asyncio.gather(
            *(sdk.responses.create(model=MODEL, tools=TOOLS, **branch) for branch in branches), return_exceptions=True
        )
        refused = [each for each in told if isinstance(each, openai.BadRequestError)]
        assert len(refused) == 3 and all(request in each.message for each in refused), told
        assert file.read_text().split() == ["Halden"]


async def test_a_denied_call_is_not_made_when_it_is_approved_later(
    tmp_path: Path, smollm2_tokenizer: Tokenizer
) -> None:
    file, replies = tmp_path / "entered", Replies("It is not entered.")
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies, [writing(file)]) as gateway:
        http = gateway.http()
        begun = {"role": "user", "content": "Enter the pump."}
        body: dict[str, Any] = {"model": MODEL, "tools": TOOLS}
        for _ in range(2):  # as a client does that keeps the items and sends them each time
            denied = await http.post(
                "/v1/responses", json=body | {"input": [begun, asking("mcpr_1"), word("mcpr_1", approve=False)]}
            )
            assert denied.json()["status"] == "completed", denied.text
        assert "denied the call" in smollm2_tokenizer.decode(replies.prompts[0].prompt_tokens)
        later = await http.post("/v1/responses", json=body | {"input": [begun, asking("mcpr_1"), word("mcpr_1")]})
        error = later.json()["error"]
        assert (later.status_code, error["code"]) == (400, "approval_request_decided") and "mcpr_1" in error["message"]
        assert not file.exists()


async def test_approved_calls_count_among_those_that_are_allowed(tmp_path: Path, smollm2_tokenizer: Tokenizer) -> None:
    file, replies = tmp_path / "entered", Replies("It is entered.")
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies, [writing(file)]) as gateway:
        http = gateway.http()
        pairs = [item for number in range(2) for item in (asking(f"mcpr_{number}"), word(f"mcpr_{number}"))]
        body: dict[str, Any] = {"model": MODEL, "tools": TOOLS, "max_tool_calls": 1}
        over = await http.post("/v1/responses", json=body | {"input": pairs})
        assert (over.status_code, over.json()["error"]["param"]) == (400, "max_tool_calls"), over.text
        assert not file.exists()
        one = (await http.post("/v1/responses", json=body | {"input": pairs[:2]})).json()
        assert [item["type"] for item in one["output"]] == ["mcp_list_tools", "mcp_call", "message"], one
        assert "log__last" not in smollm2_tokenizer.decode(replies.prompts[0].prompt_tokens), "another call is offered"


async def test_an_approval_whose_tool_is_not_there_may_be_given_again(
    tmp_path: Path, smollm2_tokenizer: Tokenizer
) -> None:
    file, replies = tmp_path / "entered", Replies("It is entered.")
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies, [writing(file)]) as gateway:
        http = gateway.http()
        body: dict[str, Any] = {"model": MODEL, "input": [asking("mcpr_1"), word("mcpr_1")]}
        without = await http.post("/v1/responses", json=body)
        assert (without.status_code, without.json()["error"]["code"]) == (400, "unknown_mcp_tool"), without.text
        other = log_tool(require_approval="always", allowed_tools=["last"])
        failed = (await http.post("/v1/responses", json=body | {"tools": [other]})).json()
        assert failed["error"]["code"] == "unknown_mcp_tool", failed
        done = (await http.post("/v1/responses", json=body | {"tools": TOOLS})).json()
        assert done["status"] == "completed" and file.read_text().split() == ["Halden"], done


async def test_a_call_that_was_cut_is_told_as_failed_and_not_offered(
    tmp_path: Path, smollm2_tokenizer: Tokenizer
) -> None:
    file, replies = tmp_path / "entered", Replies(ENTER, "Sorry.")
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies, [writing(file)]) as gateway:
        response = await gateway.sdk().responses.create(
            model=MODEL, input="Enter the pump.", tools=TOOLS, max_output_tokens=4
        )
        listed, call, message = response.output
        assert (listed.type, call.type, message.type) == ("mcp_list_tools", "mcp_call", "message")
        assert call.type == "mcp_call" and call.status == "failed" and "cut off" in str(call.error)
        assert not file.exists()
