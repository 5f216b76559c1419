"""Tools over MCP."""

from __future__ import annotations

import sys

import pytest
from mcp import StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import ActionContext
from readahead_agents.errors import ToolsetUnavailable
from readahead_agents.llm.scripted import ScriptedLanguageModel
from readahead_agents.mcp.actions_server import actions_server
from readahead_agents.mcp.toolset import FilteredToolset, McpToolset
from tests.agents.parts import ACTIONS, FILTER, SETTINGS, pump_kb

STDIO_SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("other", log_level="ERROR")
@server.tool()
def shout(text: str) -> str:
    "Says it loudly."
    return text.upper()
server.run("stdio")
"""


def context(llm: ScriptedLanguageModel) -> ActionContext:
    return ActionContext(llm, pump_kb(), SETTINGS)


def misc_server() -> MCPServer:
    server = MCPServer("misc", log_level="CRITICAL")

    @server.tool()
    async def zeta() -> str:
        return "done"

    @server.tool()
    async def alpha() -> str:
        raise ToolError("the shelf is empty")

    @server.tool()
    async def broken() -> str:
        raise RuntimeError("secret of the server")

    return server


async def test_tools_come_sorted_with_their_schemas() -> None:
    async with McpToolset(actions_server(context(ScriptedLanguageModel([FILTER])))) as toolset:
        tools = await toolset.list_tools()
    assert [tool.name for tool in tools] == ACTIONS
    assert all(tool.read_only and tool.description for tool in tools)
    (summary,) = (tool for tool in tools if tool.name == "generate_summary")
    assert summary.input_schema["properties"]["max_words"]["maximum"] == 400


async def test_evidence_travels_with_the_result_of_an_action() -> None:
    async with McpToolset(actions_server(context(ScriptedLanguageModel([FILTER])))) as toolset:
        arguments = {"question": "How often is the filter of the pump cleaned?"}
        outcome = await toolset.call_tool("query_rag_with_context", arguments, timeout_s=10)
    result = ActionResult.model_validate(outcome.data)
    assert outcome.ok
    assert result.text == FILTER
    assert result.evidence[0].text == FILTER
    assert [citation.page for citation in result.citations] == [3]


@pytest.mark.parametrize(("name", "argument"), [("generate_analysis", "question"), ("generate_summary", "topic")])
async def test_analysis_and_summary_read_the_documents_behind_earlier_results(name: str, argument: str) -> None:
    llm = ScriptedLanguageModel([FILTER])
    async with McpToolset(actions_server(context(llm))) as toolset:
        asked = {"question": "How often is the filter of the pump cleaned?"}
        first = await toolset.call_tool("query_rag_with_context", asked, timeout_s=10)
        arguments = {argument: "upkeep", "earlier": [first.data]}
        outcome = await toolset.call_tool(name, arguments, timeout_s=10)
    assert outcome.ok
    assert FILTER in llm.calls[1].messages[-1].content
    assert ActionResult.model_validate(outcome.data).evidence[0].page == 3


async def test_a_failed_tool_is_a_result_and_names_its_reason() -> None:
    async with McpToolset(misc_server()) as toolset:
        assert (await toolset.call_tool("zeta", {}, timeout_s=10)).text == "done"
        failed = await toolset.call_tool("alpha", {}, timeout_s=10)
        unknown = await toolset.call_tool("omega", {}, timeout_s=10)
        broken = await toolset.call_tool("broken", {}, timeout_s=10)
    assert (failed.ok, failed.text) == (False, "the shelf is empty")
    assert not unknown.ok
    assert not broken.ok
    assert "secret" not in broken.text


async def test_arguments_outside_their_bounds_are_refused_by_the_tool() -> None:
    async with McpToolset(actions_server(context(ScriptedLanguageModel([FILTER])))) as toolset:
        outcome = await toolset.call_tool("generate_summary", {"topic": "x", "max_words": 100_000}, timeout_s=10)
    assert not outcome.ok


async def test_a_filtered_tool_is_neither_listed_nor_called() -> None:
    async with McpToolset(misc_server()) as inner:
        toolset = FilteredToolset(inner, lambda tool: tool.name != "zeta")
        assert [tool.name for tool in await toolset.list_tools()] == ["alpha", "broken"]
        assert not (await toolset.call_tool("zeta", {}, timeout_s=10)).ok


async def test_a_server_in_another_process_is_a_toolset_too() -> None:
    target = StdioServerParameters(command=sys.executable, args=["-c", STDIO_SERVER])
    async with McpToolset(target) as toolset:
        assert [tool.name for tool in await toolset.list_tools()] == ["shout"]
        assert (await toolset.call_tool("shout", {"text": "hey"}, timeout_s=30)).text == "HEY"


async def test_a_server_that_cannot_be_reached_is_no_failed_result_but_an_error() -> None:
    with pytest.raises(ToolsetUnavailable):
        async with McpToolset("http://127.0.0.1:9/mcp"):
            pass
