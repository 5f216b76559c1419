"""Plans run step by step, with one toolset that keeps and fails what it is told."""

from __future__ import annotations

import asyncio
from typing import Any

from readahead_agents.errors import ToolsetUnavailable
from readahead_agents.events import RunEvent, StepFinished
from readahead_agents.executor import Executor, StepResult
from readahead_agents.limits import Budget
from readahead_agents.mcp.toolset import ToolOutcome, ToolSpec
from readahead_agents.plan import Plan, Step
from tests.agents.parts import SETTINGS, of

ECHO = ToolSpec("echo", "", {"type": "object", "properties": {"text": {}}}, read_only=True)


class EchoToolset:
    """Says its arguments; "fail" fails, and "gone" is a server that went away."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    async def list_tools(self) -> list[ToolSpec]:
        return [ECHO]

    async def call_tool(self, name: str, arguments: dict[str, Any], *, timeout_s: float) -> ToolOutcome:
        self.calls.append(arguments)
        await asyncio.sleep(0)
        if arguments["text"] == "gone":
            raise ToolsetUnavailable("the server went away")
        return ToolOutcome(ok=arguments["text"] != "fail", text=f"said {arguments['text']}")


async def execute(*steps: Step) -> tuple[list[StepResult], list[RunEvent], EchoToolset]:
    events: list[RunEvent] = []

    async def emit(event: RunEvent) -> None:
        events.append(event)

    toolset = EchoToolset()
    executor = Executor(toolset, [ECHO], Budget(SETTINGS), emit, parallel=4)
    return await executor.run(Plan(steps, "")), events, toolset


async def test_a_reference_is_filled_with_the_result_it_names() -> None:
    steps = Step("s1", "echo", {"text": "hello"}), Step("s2", "echo", {"text": [{"from": "s1"}]}, ("s1",))
    results, _, toolset = await execute(*steps)
    assert [result.result is not None for result in results] == [True, True]
    assert toolset.calls[1]["text"][0]["text"] == "said hello"


async def test_a_step_that_needs_the_result_of_a_failed_one_is_not_begun() -> None:
    steps = Step("s1", "echo", {"text": "fail"}), Step("s2", "echo", {"text": {"from": "s1"}}, ("s1",))
    results, events, toolset = await execute(*steps)
    assert len(toolset.calls) == 1
    assert [finished.ok for finished in of(events, StepFinished)] == [False, False]
    assert "s1" in results[1].failure


async def test_a_step_that_only_comes_after_a_failed_one_still_runs() -> None:
    steps = Step("s1", "echo", {"text": "fail"}), Step("s2", "echo", {"text": "on"}, ("s1",))
    results, _, _ = await execute(*steps)
    assert [result.result is not None for result in results] == [False, True]


async def test_a_tool_server_that_goes_away_fails_its_step_and_no_other() -> None:
    results, _, _ = await execute(Step("s1", "echo", {"text": "gone"}), Step("s2", "echo", {"text": "on"}))
    assert results[0].failure == "the server went away"
    assert results[1].result is not None
