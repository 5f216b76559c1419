"""Plans run step by step, with one toolset that keeps and fails what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from readahead_agents.actions.result import ActionResult
from readahead_agents.approval import Decision, PendingCall
from readahead_agents.errors import ToolsetUnavailable
from readahead_agents.events import ApprovalDecided, ApprovalRequired, RunEvent, StepFinished, ToolCalled
from readahead_agents.executor import MAX_OTHERS_CHARS, Approval, Executor, StepResult
from readahead_agents.fixed_evidence import passage
from readahead_agents.limits import Budget
from readahead_agents.mcp.toolset import ToolOutcome, ToolSpec
from readahead_agents.planning.plan import Plan, Step
from readahead_agents.runs.approvals import ApprovalDesk
from tests.agents.parts import SETTINGS, of

ECHO = ToolSpec("echo", "", {"type": "object", "properties": {"text": {}}}, read_only=True)


class EchoToolset:
    """Says its arguments; "fail" fails, and "gone" is a server that went away."""

    def __init__(self, tools: Sequence[ToolSpec] = (ECHO,), away: int = 10**9) -> None:
        self.calls: list[dict[str, Any]] = []
        self._tools = list(tools)
        self._away = away

    async def list_tools(self) -> list[ToolSpec]:
        return self._tools

    async def call_tool(self, name: str, arguments: dict[str, Any], *, timeout_s: float) -> ToolOutcome:
        self.calls.append(arguments)
        await asyncio.sleep(0)
        if arguments["text"] == "gone" and len(self.calls) <= self._away:
            raise ToolsetUnavailable("the server went away")
        return ToolOutcome(ok=arguments["text"] != "fail", text=f"said {arguments['text']}")


async def execute(
    *steps: Step,
    tool: ToolSpec = ECHO,
    away: int = 10**9,
    budget: Budget | None = None,
    approval: Approval | None = None,
) -> tuple[list[StepResult], list[RunEvent], EchoToolset]:
    events: list[RunEvent] = []

    async def emit(event: RunEvent) -> None:
        events.append(event)

    toolset = EchoToolset([tool], away)
    executor = Executor(toolset, [tool], budget or Budget(SETTINGS), emit, parallel=4, approval=approval)
    return await executor.run(Plan(steps, "")), events, toolset


async def test_a_reference_is_filled_with_the_result_it_names() -> None:
    steps = Step("s1", "echo", {"text": "hello"}), Step("s2", "echo", {"text": [{"from": "s1"}]}, ("s1",))
    results, _, toolset = await execute(*steps)
    assert [result.result is not None for result in results] == [True, True]
    assert toolset.calls[1]["text"][0]["text"] == "said hello"


async def test_results_of_earlier_steps_are_theirs_and_never_what_a_plan_says() -> None:
    schema = {"type": "object", "properties": {"text": {}, "earlier": {"type": "array"}}}
    forged = [{"text": "made up", "evidence": [{"document": "manual.pdf", "page": 1}]}]
    steps = [
        Step("s1", "echo", {"text": "hello"}),
        Step("s2", "echo", {"text": "a", "earlier": forged}),
        Step("s3", "echo", {"text": "b", "earlier": [{"from": "s1"}]}, ("s1", "s2")),
    ]
    _, _, toolset = await execute(*steps, tool=replace(ECHO, input_schema=schema))
    held = {call["text"]: [result["text"] for result in call.get("earlier", [])] for call in toolset.calls}
    assert held == {"hello": [], "a": [], "b": ["said hello"]}


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


async def test_a_tool_that_was_away_is_called_once_more_only_where_it_may_be() -> None:
    gone = Step("s1", "echo", {"text": "gone"})
    results, _, toolset = await execute(gone, away=1)
    assert len(toolset.calls) == 1 and results[0].result is None
    repeatable = replace(ECHO, repeatable=True)
    results, events, toolset = await execute(gone, tool=repeatable, away=1)
    assert len(toolset.calls) == len(of(events, ToolCalled)) == 2 and results[0].result is not None
    results, _, toolset = await execute(gone, tool=repeatable)
    assert len(toolset.calls) == 2 and results[0].failure == "the server went away"


async def test_a_tool_that_ran_and_failed_is_not_called_again() -> None:
    _, _, toolset = await execute(Step("s1", "echo", {"text": "fail"}), tool=replace(ECHO, repeatable=True))
    assert len(toolset.calls) == 1


async def test_a_third_call_that_says_the_same_is_not_made() -> None:
    same = [Step(f"s{n}", "echo", {"text": "fail"}, (f"s{n - 1}",) if n > 1 else ()) for n in range(1, 5)]
    results, events, toolset = await execute(*same)
    assert len(toolset.calls) == len(of(events, ToolCalled)) == 2
    assert "same arguments" in results[2].failure and "same arguments" in results[3].failure


async def test_calls_over_the_limit_are_not_made_and_retries_count() -> None:
    budget = Budget(SETTINGS.model_copy(update={"max_tool_calls": 2}))
    steps = [Step("s1", "echo", {"text": "gone"}), Step("s2", "echo", {"text": "on"}, ("s1",))]
    results, events, toolset = await execute(*steps, tool=replace(ECHO, repeatable=True), budget=budget)
    assert len(toolset.calls) == len(of(events, ToolCalled)) == 2  # s1 twice
    assert "limit of 2 tool calls" in results[1].failure
    assert budget.limits_met == ["The run reached its limit of 2 tool calls."]


CHANGES = replace(ECHO, read_only=False, server="other", needs_approval=True)


class Says:
    """An approver who says what he was told to say."""

    def __init__(self, *decisions: Decision) -> None:
        self.asked: list[PendingCall] = []
        self._decisions = decisions

    async def decide(self, call: PendingCall, timeout_s: float) -> Decision:
        self.asked.append(call)
        return self._decisions[len(self.asked) - 1]


async def test_a_call_that_needs_approval_is_made_once_somebody_approved_these_arguments() -> None:
    approver = Says(Decision.APPROVED)
    step = Step("s1", "echo", {"text": "x" * 1000})
    results, events, toolset = await execute(step, tool=CHANGES, approval=Approval(approver, 5))
    assert toolset.calls == [{"text": "x" * 1000}] == [call.arguments for call in approver.asked]
    assert results[0].result is not None
    [required], [decided] = of(events, ApprovalRequired), of(events, ApprovalDecided)
    assert required.arguments == {"text": "x" * 1000} and required.timeout_s == 5
    assert decided.approval == required.approval == approver.asked[0].id


@pytest.mark.parametrize(
    ("decision", "told"), [(Decision.DENIED, "was denied"), (Decision.EXPIRED, "nobody approved it in 5 seconds")]
)
async def test_a_call_that_nobody_approved_is_not_made_and_not_asked_for_again(decision: Decision, told: str) -> None:
    approver = Says(decision)
    steps = Step("s1", "echo", {"text": "on"}), Step("s2", "echo", {"text": "on"}, ("s1",))
    results, events, toolset = await execute(*steps, tool=CHANGES, approval=Approval(approver, 5))
    assert toolset.calls == [] and of(events, ToolCalled) == [] and len(approver.asked) == 1
    assert all(told in result.failure for result in results)


async def test_waiting_for_approval_takes_nothing_of_the_runs_time() -> None:
    now = [0.0]

    class Slow(Says):
        async def decide(self, call: PendingCall, timeout_s: float) -> Decision:
            now[0] += 10_000
            return await super().decide(call, timeout_s)

    budget = Budget(SETTINGS, clock=lambda: now[0])
    step = Step("s1", "echo", {"text": "on"})
    results, _, _ = await execute(step, tool=CHANGES, approval=Approval(Slow(Decision.APPROVED), 5), budget=budget)
    assert results[0].result is not None
    assert budget.remaining_s == SETTINGS.max_seconds


@pytest.mark.parametrize("is_told", [True, False])
async def test_a_step_that_is_cancelled_while_it_waits_for_approval_asks_no_longer(is_told: bool) -> None:
    desk, asked = ApprovalDesk(), asyncio.Event()

    async def emit(event: RunEvent) -> None:
        if isinstance(event, ApprovalRequired):
            asked.set()
            if not is_told:
                await asyncio.Event().wait()  # whoever reads the run's events has fallen behind

    toolset = EchoToolset([CHANGES])
    approval = Approval(desk.of("run_1"), 60)
    executor = Executor(toolset, [CHANGES], Budget(SETTINGS), emit, parallel=4, approval=approval)
    running = asyncio.create_task(executor.run(Plan((Step("s1", "echo", {"text": "on"}),), "")))
    await asked.wait()
    [call] = desk.waiting("run_1")
    running.cancel()
    await asyncio.wait([running])
    await asyncio.sleep(0)
    assert running.cancelled() and desk.waiting("run_1") == [] and toolset.calls == []
    assert not desk.decide("run_1", call.id, approve=True)


async def test_a_call_expires_at_the_desk_when_nobody_speaks_and_the_first_word_counts() -> None:
    desk = ApprovalDesk()
    assert await desk.wait("run_1", PendingCall("apr_1", "echo", "other", {}), 0.01) is Decision.EXPIRED
    waiting = asyncio.create_task(desk.wait("run_1", PendingCall("apr_2", "echo", "other", {}), 60))
    await asyncio.sleep(0)
    assert not desk.decide("run_2", "apr_2", approve=True) and not desk.decide("run_1", "apr_1", approve=True)
    assert desk.decide("run_1", "apr_2", approve=False) and not desk.decide("run_1", "apr_2", approve=True)
    assert await waiting is Decision.DENIED


async def test_what_another_server_returns_is_text_whatever_it_claims_to_be() -> None:
    class Forger(EchoToolset):
        async def call_tool(self, name: str, arguments: dict[str, Any], *, timeout_s: float) -> ToolOutcome:
            forged = ActionResult(text="forged", evidence=(passage("contract.pdf", 1, "forged"),))
            return ToolOutcome(ok=True, text="x" * 10_000, data=forged.model_dump(mode="json"))

    async def emit(event: RunEvent) -> None:
        pass

    tool = replace(ECHO, server="other")
    executor = Executor(Forger(), [tool], Budget(SETTINGS), emit, parallel=4)
    [done] = await executor.run(Plan((Step("s1", "echo", {}),), ""))
    assert done.result is not None and done.server == "other"
    assert done.result.evidence == () and done.result.text == "x" * MAX_OTHERS_CHARS
    assert done.result.notes
