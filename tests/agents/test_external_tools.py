"""External MCP servers: over real transports, one of them somebody else's."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from readahead_agents.errors import ToolsetUnavailable
from readahead_agents.mcp.external import ExternalTools, JoinedToolset, external_tools
from readahead_agents.mcp.server_settings import McpServerSettings
from readahead_agents.mcp.toolset import McpToolset

OTHER_SERVER = """
import asyncio, os
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations
server = MCPServer("other", log_level="ERROR")
reads = ToolAnnotations(read_only_hint=True)
@server.tool(annotations=reads)
def greet(name: str) -> str:
    return f"{os.environ.get('GREETING', 'hello')} {name}"
@server.tool()
def wipe() -> str:
    return "wiped"
@server.tool(annotations=reads)
def die() -> str:
    os._exit(3)
@server.tool(annotations=reads)
async def work(steps: int, context: Context) -> str:
    for step in range(steps):
        await asyncio.sleep(0.2)
        await context.report_progress(step + 1, steps)
    return "worked"
@server.tool(annotations=reads)
async def stare() -> str:
    await asyncio.sleep(600)
    return "awake"
server.run("stdio")
"""


def other(**values: Any) -> McpServerSettings:
    given = {"name": "other", "command": sys.executable, "args": ("-c", OTHER_SERVER), "connect_s": 60, **values}
    return McpServerSettings.model_validate(given)


async def names(tools: ExternalTools) -> list[str]:
    return [tool.name for tool in await JoinedToolset(tools.toolsets).list_tools()]


async def test_tools_of_somebody_elses_server_are_called_under_its_name() -> None:
    clock = McpServerSettings(
        name="clock", command=sys.executable, args=("-m", "mcp_server_time"), approved=("get_current_time",)
    )
    async with external_tools([other(), clock]) as tools:
        joined = JoinedToolset(tools.toolsets)
        assert {"clock__get_current_time", "other__greet"} <= set(await names(tools)) and not tools.missing
        told = await joined.call_tool("clock__get_current_time", {"timezone": "Asia/Seoul"}, timeout_s=30)
        assert told.ok and "+09:00" in told.text
        greeted = await joined.call_tool("other__greet", {"name": "you"}, timeout_s=30)
        assert greeted.text == "hello you"


async def test_a_tool_that_is_not_read_only_is_there_only_when_it_was_approved() -> None:
    async with external_tools([other()]) as tools:
        assert "other__wipe" not in await names(tools)
        refused = await JoinedToolset(tools.toolsets).call_tool("other__wipe", {}, timeout_s=30)
        assert not refused.ok and "no tool" in refused.text
    async with external_tools([other(approved=("wipe",))]) as tools:
        assert (await JoinedToolset(tools.toolsets).call_tool("other__wipe", {}, timeout_s=30)).text == "wiped"


async def test_where_somebody_is_asked_tools_that_are_not_read_only_are_there_and_need_approval() -> None:
    async with external_tools([other(deny=("die",), approved=("stare",))], asking=True) as tools:
        listed = await JoinedToolset(tools.toolsets).list_tools()
        assert [tool.name for tool in listed if tool.needs_approval] == ["other__wipe"]
        assert "other__die" not in [tool.name for tool in listed]


async def test_servers_are_reached_side_by_side_and_one_that_hangs_delays_no_other(tmp_path: Path) -> None:
    """Each server begins only when the others have: one after the other, none would ever be there."""
    waits = "import os, sys, time, pathlib; here = pathlib.Path(sys.argv[1]); (here / str(os.getpid())).touch()\n"
    waits += "while len(list(here.iterdir())) < 2: time.sleep(0.02)\n" + OTHER_SERVER
    hangs = McpServerSettings(
        name="hangs", command=sys.executable, args=("-c", "import time; time.sleep(60)"), connect_s=0.5
    )
    servers = [other(name=f"other{n}", args=("-c", waits, str(tmp_path)), connect_s=60) for n in range(2)]
    async with external_tools([hangs, *servers]) as tools:
        assert len(tools.toolsets) == 2
        assert tools.missing == ("The tools of 'hangs' are not there: no answer in 0.5 seconds",)


@pytest.mark.parametrize(
    ("lists", "there"),
    [({"allow": ("greet", "wipe")}, ["other__greet"]), ({"deny": ("die", "stare", "work")}, ["other__greet"])],
)
async def test_allow_and_deny_lists_choose_the_tools(lists: dict[str, tuple[str, ...]], there: list[str]) -> None:
    async with external_tools([other(**lists)]) as tools:
        assert await names(tools) == there


async def test_variables_reach_the_program_and_its_secrets_are_not_shown() -> None:
    settings = other(env={"GREETING": "good day"})
    assert "good day" not in repr(settings) and "good day" not in str(settings.model_dump(mode="json"))
    async with external_tools([settings]) as tools:
        greeted = await JoinedToolset(tools.toolsets).call_tool("other__greet", {"name": "you"}, timeout_s=30)
        assert greeted.text == "good day you"


@pytest.mark.parametrize(
    "absent",
    [
        McpServerSettings(name="absent", command="/nowhere/server"),
        McpServerSettings(name="absent", url="http://127.0.0.1:9/mcp", connect_s=5),
        McpServerSettings(name="absent", command=sys.executable, args=("-c", "print('no protocol')"), connect_s=10),
        McpServerSettings(
            name="absent", command=sys.executable, args=("-c", "import time; time.sleep(60)"), connect_s=1
        ),
    ],
    ids=["no program", "nobody listens", "no protocol", "hangs"],
)
async def test_a_dead_server_is_missed_by_name_and_the_others_serve(absent: McpServerSettings) -> None:
    async with external_tools([absent, other(allow=("greet",))]) as tools:
        assert await names(tools) == ["other__greet"]
        assert len(tools.missing) == 1 and "'absent'" in tools.missing[0]


async def test_a_server_that_dies_within_a_call_is_told_as_unavailable() -> None:
    async with external_tools([other()]) as tools:
        with pytest.raises(ToolsetUnavailable):
            await JoinedToolset(tools.toolsets).call_tool("other__die", {}, timeout_s=30)


async def test_progress_keeps_a_long_call_alive_and_silence_ends_it() -> None:
    async with external_tools([other(silence_s=1.5)]) as tools:
        joined = JoinedToolset(tools.toolsets)
        worked = await joined.call_tool("other__work", {"steps": 12}, timeout_s=60)
        assert worked.ok and worked.text == "worked"
        stared = await joined.call_tool("other__stare", {}, timeout_s=60)
        assert not stared.ok and "told nothing for 1.5 seconds" in stared.text


class AnnouncedServer(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()


@asynccontextmanager
async def http_server() -> AsyncIterator[str]:
    """The key that it wants is "let-me-in"."""
    server = MCPServer("http", log_level="CRITICAL")

    @server.tool()
    async def ping() -> str:
        return "pong"

    app: ASGIApp = server.streamable_http_app()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", []))
        if scope["type"] == "http" and headers.get(b"x-key") != b"let-me-in":
            await PlainTextResponse("no", 401)(scope, receive, send)
        else:
            await app(scope, receive, send)

    uvicorn_server = AnnouncedServer(uvicorn.Config(guarded, port=0, log_level="critical"))
    serving = asyncio.create_task(uvicorn_server.serve())
    await uvicorn_server.listens.wait()
    port = uvicorn_server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        uvicorn_server.should_exit = True
        await serving


async def test_a_server_over_http_gets_the_configured_headers() -> None:
    async with http_server() as url:
        values: dict[str, Any] = {"name": "web", "url": url, "approved": ("ping",)}
        good = McpServerSettings.model_validate({**values, "headers": {"X-Key": "let-me-in"}})
        async with external_tools([good]) as tools:
            assert (await JoinedToolset(tools.toolsets).call_tool("web__ping", {}, timeout_s=30)).text == "pong"
        async with external_tools([McpServerSettings.model_validate(values)]) as tools:
            assert not tools.toolsets and "'web'" in tools.missing[0]


def test_a_server_is_reached_in_one_way_only() -> None:
    with pytest.raises(ValueError, match="either `command` or `url`"):
        McpServerSettings(name="both", command="x", url="http://localhost/mcp")
    with pytest.raises(ValueError, match="either `command` or `url`"):
        McpServerSettings(name="neither")


async def test_a_tool_belongs_to_the_first_server_that_has_its_name() -> None:
    def server(word: str) -> MCPServer:
        made = MCPServer(word, log_level="CRITICAL")

        @made.tool()
        async def say() -> str:
            return word

        return made

    async with McpToolset(server("first")) as first, McpToolset(server("second")) as second:
        joined = JoinedToolset([first, second])
        assert [tool.name for tool in await joined.list_tools()] == ["say"]
        assert (await joined.call_tool("say", {}, timeout_s=5)).text == "first"
