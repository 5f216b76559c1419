"""Runs of the agent over HTTP: followed, left, taken up again, cancelled and kept."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from readahead_agents.llm.scripted import ScriptedCall, ScriptedLanguageModel
from readahead_agents.mcp.server_settings import McpServerSettings
from tests.agents.parts import planning, step
from tests.platform.gateway import Gateway, add_document, running_gateway

ASKED = {"kb": "manuals", "question": "How heavy is the Halden pump?"}
ANSWER = "The Halden pump weighs 41 kilograms without its frame."


async def read(response: httpx.Response, until: str | None = None) -> list[tuple[int, dict[str, Any]]]:
    """Numbers and events of a stream; to its end, or to the first event of a type."""
    events: list[tuple[int, dict[str, Any]]] = []
    number = 0
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            number = int(line.removeprefix("id: "))
        if line.startswith("data: ") and line != "data: [DONE]":
            events.append((number, json.loads(line.removeprefix("data: "))))
            if events[-1][1].get("type") == until:
                break
    return events


class Gate:
    """Holds every reply of a model after its first piece, until it is opened."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.ended = asyncio.Event()

    async def hold(self, _: ScriptedCall) -> None:
        self.reached.set()
        try:
            await self.opened.wait()
        finally:
            self.ended.set()


@asynccontextmanager
async def held_gateway(home: Path, manual: Path) -> AsyncIterator[tuple[Gateway, Gate]]:
    gate = Gate()
    async with running_gateway(home, llm=ScriptedLanguageModel([ANSWER], hold=gate.hold)) as gateway:
        await add_document(gateway, "manuals", manual)
        async with asyncio.timeout(60):
            yield gateway, gate


@pytest.fixture
async def asked(gateway: Gateway, manual: Path) -> Gateway:
    await add_document(gateway, "manuals", manual)
    return gateway


async def test_a_run_tells_its_plan_its_steps_its_answer_and_what_it_cost(asked: Gateway) -> None:
    async with asked.http().stream("POST", "/v1/agent/runs", json={**ASKED, "stream": True}) as response:
        events = await read(response)
    types = [event["type"] for _, event in events]
    for kind in ("route", "plan", "step_started", "evidence", "step_finished", "token", "citation", "usage"):
        assert kind in types, types
    plan = next(event for _, event in events if event["type"] == "plan")
    assert plan["plan"] == [each["tool"] for each in plan["steps"]] and plan["estimated_steps"] == 1
    usage = next(event for _, event in events if event["type"] == "usage")
    assert usage["llm_calls"] == 2 and usage["seconds"] > 0  # the plan and its only step
    assert usage["computed_tokens"] == usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"] > 0
    assert types[-1] == "answer" and types.index("plan") < types.index("step_started")
    assert [number for number, _ in events] == list(range(1, len(events) + 1))
    answer = events[-1][1]
    assert "".join(event["text"] for _, event in events if event["type"] == "token") == answer["answer"]
    kept = (await asked.http().get(f"/v1/agent/runs/{answer['run']}")).json()
    assert kept["status"] == "completed" and kept["answer"]["answer"] == answer["answer"]
    assert kept["answer"]["citations"][0]["page"] == 1


async def test_a_dropped_connection_is_taken_up_at_the_event_where_it_broke(tmp_path: Path, manual: Path) -> None:
    async with held_gateway(tmp_path / "home", manual) as (gateway, gate):
        http = gateway.http()
        async with http.stream("POST", "/v1/agent/runs", json={**ASKED, "route": "rag", "stream": True}) as response:
            before = await read(response, until="evidence")
        run = before[0][1]["run"]
        await gate.reached.wait()
        assert (await http.get(f"/v1/agent/runs/{run}")).json()["status"] == "running"
        gate.opened.set()
        last = before[-1][0]
        async with http.stream("GET", f"/v1/agent/runs/{run}/events", headers={"Last-Event-ID": str(last)}) as response:
            behind = await read(response)
        assert [number for number, _ in behind] == list(range(last + 1, last + 1 + len(behind)))
        assert behind[-1][1]["type"] == "answer"
        again = await http.get(f"/v1/agent/runs/{run}/events", params={"after": last})
        assert again.text.count("data: {") == len(behind)


async def test_cancelling_a_run_ends_its_work_at_the_model(tmp_path: Path, manual: Path) -> None:
    async with held_gateway(tmp_path / "home", manual) as (gateway, gate):
        http = gateway.http()
        run = (await http.post("/v1/agent/runs", json={**ASKED, "route": "rag"})).json()
        await gate.reached.wait()
        assert (await http.post(f"/v1/agent/runs/{run['id']}/cancel")).json()["status"] == "cancelled"
        assert gate.ended.is_set() and gateway.llm.running == 0
        again = (await http.post(f"/v1/agent/runs/{run['id']}/cancel")).json()
        assert again["status"] == "cancelled" and again["answer"] is None
        events = (await http.get(f"/v1/agent/runs/{run['id']}/events")).text
        assert '"type":"cancelled"' in events.splitlines()[-2]


async def test_a_run_that_fails_keeps_its_error(gateway: Gateway) -> None:
    await gateway.sdk().vector_stores.create(name="manuals")
    async with gateway.http().stream("POST", "/v1/agent/runs", json={**ASKED, "stream": True}) as response:
        events = await read(response)
    assert events[-1][1]["error"]["code"] == "knowledge_base_empty"
    kept = (await gateway.http().get("/v1/agent/runs")).json()["data"][0]
    assert kept["status"] == "failed" and kept["error"]["code"] == "knowledge_base_empty"


async def test_runs_outlive_the_service_and_those_in_progress_are_told_as_interrupted(
    tmp_path: Path, manual: Path
) -> None:
    home = tmp_path / "home"
    async with held_gateway(home, manual) as (gateway, gate):
        run = (await gateway.http().post("/v1/agent/runs", json={**ASKED, "route": "rag"})).json()
        await gate.reached.wait()
    async with running_gateway(home) as gateway:
        http = gateway.http()
        kept = (await http.get(f"/v1/agent/runs/{run['id']}")).json()
        assert kept["status"] == "interrupted" and kept["request"]["question"] == ASKED["question"]
        events = (await http.get(f"/v1/agent/runs/{run['id']}/events")).text
        assert '"type":"evidence"' in events and '"type":"interrupted"' in events


async def test_a_tenant_has_a_bounded_number_of_runs_and_sees_no_others(tmp_path: Path, manual: Path) -> None:
    async with held_gateway(tmp_path / "home", manual) as (gateway, _):
        http, other = gateway.http(), gateway.http(gateway.other_key)
        body = {**ASKED, "route": "rag"}
        answers = await asyncio.gather(*(http.post("/v1/agent/runs", json=body) for _ in range(12)))
        begun = [answer.json() for answer in answers if answer.status_code == 202]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert (len(begun), len(refused)) == (8, 4)
        assert refused[0].json()["error"]["code"] == "too_many_runs" and refused[0].headers["retry-after"]
        run = begun[0]["id"]
        for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel")):
            answer = await other.request(method, f"/v1/agent/runs/{run}{path}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert (await other.get("/v1/agent/runs")).json()["data"] == []
        listed = (await http.get("/v1/agent/runs", params={"limit": 3})).json()
        assert len(listed["data"]) == 3 and listed["has_more"]


async def test_what_cannot_be_asked_is_refused_before_a_run_begins(asked: Gateway) -> None:
    deep: dict[str, Any] = {"plan": ["query_rag_with_context"]}
    for _ in range(70):
        deep = {"plan": ["query_rag_with_context"], "x": deep}
    http = asked.http()
    for body, status, named in (
        ({**ASKED, "kb": "nowhere"}, 404, "nowhere"),
        ({**ASKED, "question": ""}, 400, "question"),
        ({**ASKED, "stream": "yes"}, 400, "stream"),
        ({**ASKED, "rout": "rag"}, 400, "rout"),
        ({**ASKED, "plan": {"steps": []}}, 400, "no steps"),
        ({**ASKED, "plan": deep}, 400, "64 levels"),
        ({**ASKED, "plan": {"plan": ["query_rag_with_context"]}, "route": "rag"}, 400, "'rag'"),
    ):
        answer = await http.post("/v1/agent/runs", json=body)
        assert answer.status_code == status and named in answer.json()["error"]["message"], answer.text
    assert (await http.get("/v1/agent/runs")).json()["data"] == []


LOG_SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("log", log_level="ERROR")
@server.tool()
def enter(pump: str) -> str:
    "Enters a pump into the log."
    return f"entered {pump}"
server.run("stdio")
"""
LOG = McpServerSettings(name="log", command=sys.executable, args=("-c", LOG_SERVER), connect_s=60)
LOGGED = {**ASKED, "question": "How heavy is the Halden pump? Enter the pump Halden into the log."}


async def test_a_call_that_may_change_something_waits_until_somebody_who_may_write_says_yes(
    tmp_path: Path, manual: Path
) -> None:
    steps = [step("query_rag_with_context", question=ASKED["question"]), step("log__enter", pump="Halden")]
    llm = ScriptedLanguageModel(planning(steps, {}, ANSWER))
    async with running_gateway(tmp_path / "home", llm=llm, mcp_servers=[LOG]) as gateway, asyncio.timeout(120):
        await add_document(gateway, "manuals", manual)
        reading, _ = await gateway.context.tenants.create_key("acme", scopes=["read"])
        http, reader = gateway.http(), gateway.http(reading)
        asking = {**LOGGED, "approvals": "ask", "stream": True}
        refused = await reader.post("/v1/agent/runs", json=asking)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "insufficient_scope")
        unasked = await outcome(http, {**LOGGED, "stream": True})
        assert "entered" not in unasked["answer"] and "log__enter" not in json.dumps(llm.calls[0].options.json_schema)
        for approve, told in (
            (True, "entered Halden"),
            (False, "(log__enter) failed: Not called: the call was denied"),
        ):
            async with http.stream("POST", "/v1/agent/runs", json=asking) as response:
                required = (await read(response, until="approval_required"))[-1][1]
            assert (required["tool"], required["server"]) == ("log__enter", "log")
            assert required["arguments"] == {"pump": "Halden"}
            path = f"/v1/agent/runs/{required['run']}"
            waiting = (await http.get(path)).json()
            assert waiting["status"] == "running" and waiting["approvals"][0]["id"] == required["approval"]
            decision = f"{path}/approvals/{required['approval']}"
            for client, status in ((reader, 403), (gateway.http(gateway.other_key), 404)):
                assert (await client.post(decision, json={"approve": True})).status_code == status
            assert (await http.post(f"{path}/approvals/apr_other", json={"approve": True})).status_code == 404
            assert (await http.post(decision, json={"approve": approve})).is_success
            async with http.stream("GET", f"{path}/events") as response:
                events = [event for _, event in await read(response)]
            decided = next(event for event in events if event["type"] == "approval_decided")
            assert decided["decision"] == ("approved" if approve else "denied")
            assert told in events[-1]["answer"] and ANSWER in events[-1]["answer"]
            again = await http.post(decision, json={"approve": True})
            assert (again.status_code, again.json()["error"]["code"]) == (404, "approval_not_found")
        shown = await at_a_terminal(gateway, tmp_path, "ask", "manuals", LOGGED["question"], "--route", "agent")
        assert "entered Halden" in shown and "manual.pdf, page 1" in shown


async def at_a_terminal(gateway: Gateway, home: Path, *command: str) -> str:
    """What the command line prints where somebody sits, who says yes when asked."""
    master, terminal = os.openpty()
    variables = {"READAHEAD_URL": gateway.url, "READAHEAD_API_KEY": gateway.key, "READAHEAD_HOME": str(home / "none")}
    program = [sys.executable, "-m", "readahead_platform.cli", *command]
    pipe = asyncio.subprocess.PIPE
    env = {**os.environ, **variables}
    process = await asyncio.create_subprocess_exec(*program, stdin=terminal, stdout=pipe, stderr=pipe, env=env)
    os.close(terminal)
    try:
        assert process.stderr is not None
        asked = await process.stderr.readuntil(b"[y/N]")
        assert b'Call log__enter of the server log with {"pump": "Halden"}?' in asked
        os.write(master, b"y\n")
        shown, _ = await process.communicate()
    finally:
        os.close(master)
    assert process.returncode == 0
    return shown.decode()


async def outcome(http: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    async with http.stream("POST", "/v1/agent/runs", json=body) as response:
        return (await read(response))[-1][1]


async def test_a_run_may_be_given_lower_limits_and_tells_the_one_it_met(tmp_path: Path, manual: Path) -> None:
    steps = [step("query_rag_with_context", question=f"{ASKED['question']} {word}") for word in ("Now", "Then")]
    llm = ScriptedLanguageModel(planning(steps, {}, ANSWER))
    async with running_gateway(tmp_path / "home", llm=llm) as gateway, asyncio.timeout(60):
        await add_document(gateway, "manuals", manual)
        http = gateway.http()
        limited = await outcome(http, {**ASKED, "limits": {"max_tool_calls": 1}, "stream": True})
        assert ANSWER in limited["answer"] and "limit of 1 tool calls" in limited["answer"]
        brief = await outcome(http, {**ASKED, "limits": {"max_llm_tokens": 40}, "stream": True})
        assert "limit of 40 tokens" in brief["answer"]
        for limits, named in (({"max_steps": 5}, "max_steps"), ({"max_seconds": 0}, "max_seconds"), ({"x": 1}, "x")):
            answer = await http.post("/v1/agent/runs", json={**ASKED, "limits": limits})
            assert answer.status_code == 400 and f"limits.{named}" in answer.json()["error"]["param"], answer.text
