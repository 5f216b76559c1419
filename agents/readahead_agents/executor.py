"""Runs a plan's steps: side by side where nothing stands between them, within the run's budget."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from readahead_agents.actions.result import ActionResult
from readahead_agents.answering.joined import MARKERS
from readahead_agents.approval import Approver, Decision, PendingCall
from readahead_agents.calls import CallLog, shown
from readahead_agents.errors import ToolsetUnavailable
from readahead_agents.events import (
    ApprovalDecided,
    ApprovalRequired,
    EvidenceFound,
    RunEvent,
    StepFinished,
    StepStarted,
    ToolCalled,
)
from readahead_agents.limits import Budget
from readahead_agents.mcp.toolset import ToolOutcome, Toolset, ToolSpec
from readahead_agents.planning.plan import EARLIER, Plan, Step, is_reference, references
from readahead_agents.planning.plan_schema import literal_arguments, takes_result

Emit = Callable[[RunEvent], Awaitable[None]]
SUMMARY_CHARS = 160
RETRIES = 1
"""Further calls of a tool that could not be reached and may be called twice."""
MAX_OTHERS_CHARS = 1_200
"""Of an external tool's text: it goes into prompts and into the answer."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step came to: a result, or the reason why there is none."""

    step: Step
    result: ActionResult | None
    failure: str = ""
    server: str = ""
    """The external server that the text is from; empty for our own actions."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Who is asked about calls of tools that need it, and how long a call waits."""

    approver: Approver
    timeout_s: float


class Executor:
    """Executes plans with one toolset.

    A step begins when those it depends on have ended, however they ended; what they gave reaches it as evidence. A
    step that fails, or that the budget no longer allows, is reported as failed and the others go on.
    """

    def __init__(
        self,
        toolset: Toolset,
        tools: Sequence[ToolSpec],
        budget: Budget,
        emit: Emit,
        *,
        parallel: int,
        approval: Approval | None = None,
    ) -> None:
        """Args:
        approval: Where the run may ask somebody; needed where a tool needs approval.
        """
        self._approval = approval
        self._toolset = toolset
        self._tools = {tool.name: tool for tool in tools}
        self._budget = budget
        self._emit = emit
        self._slots = asyncio.Semaphore(parallel)
        self.calls = CallLog()

    async def run(self, plan: Plan) -> list[StepResult]:
        """The results in the plan's order. Cancelling it cancels every step."""
        tasks: dict[str, asyncio.Task[StepResult]] = {}
        async with asyncio.TaskGroup() as group:
            for step in plan.steps:  # a plan lists a step behind those it depends on
                before = [tasks[dependency] for dependency in step.depends_on]
                tasks[step.id] = group.create_task(self._after(step, before))
        return [task.result() for task in tasks.values()]

    async def _after(self, step: Step, before: Sequence[asyncio.Task[StepResult]]) -> StepResult:
        earlier = {task.result().step.id: task.result() for task in [await _ended(task) for task in before]}
        async with self._slots:
            return await self._run_step(step, earlier)

    async def _run_step(self, step: Step, earlier: Mapping[str, StepResult]) -> StepResult:
        started = time.monotonic()
        await self._emit(StepStarted(step.id, step.tool, step.arguments))
        outcome = await self._call(step, earlier)
        server = self._tools[step.tool].server
        result = _result(outcome, server) if outcome.ok else None
        if result is not None and result.evidence:
            await self._emit(EvidenceFound(result.evidence, step.id))
        told = result.text if result is not None else outcome.text
        elapsed_ms = (time.monotonic() - started) * 1000
        await self._emit(StepFinished(step.id, step.tool, result is not None, _first_words(told), elapsed_ms))
        return StepResult(step, result, "" if result is not None else outcome.text[:MAX_OTHERS_CHARS], server)

    async def _call(self, step: Step, earlier: Mapping[str, StepResult]) -> ToolOutcome:
        """Calls the step's tool; whatever keeps it from ending well becomes a failed outcome with its reason."""
        if self._budget.exceeded is not None or self._budget.remaining_s <= 0:
            self._budget.exceed("seconds", "The run has no time left.")
            return ToolOutcome(ok=False, text=f"Not begun: {self._budget.exceeded}")
        if missing := [name for name in sorted(references(step.arguments)) if earlier[name].result is None]:
            return ToolOutcome(ok=False, text=f"Not begun: it needs the result of {', '.join(missing)}, which failed.")
        tool, arguments = self._tools[step.tool], self._arguments(step, earlier)
        if (known := self.calls.before(tool, arguments)) is not None:
            return known
        if tool.needs_approval and (refusal := await self._refusal(step, arguments)) is not None:
            self.calls.refuse(tool, arguments, refusal)
            return refusal
        try:
            async with asyncio.timeout(self._budget.remaining_s):
                outcome = await self._attempts(step, tool, arguments)
        except TimeoutError:
            self._budget.exceed("seconds", "The run has no time left.")
            return ToolOutcome(ok=False, text="Stopped: the run has no time left.")
        self.calls.after(tool, arguments, outcome)
        return outcome

    async def _refusal(self, step: Step, arguments: dict[str, Any]) -> ToolOutcome | None:
        """Asks for approval of a call; None where it was given."""
        assert self._approval is not None, "tools that need approval are offered only where somebody is asked"
        timeout_s, server = self._approval.timeout_s, self._tools[step.tool].server
        call = PendingCall(f"apr_{secrets.token_hex(8)}", step.tool, server, arguments)
        with self._budget.waiting_for_people():
            # the decision is asked for first, so that whoever reads the event can answer it at once
            deciding = asyncio.create_task(self._approval.approver.decide(call, timeout_s))
            try:
                await asyncio.sleep(0)
                await self._emit(ApprovalRequired(step.id, call.id, step.tool, server, arguments, timeout_s))
                decision = await deciding
            finally:
                deciding.cancel()
        await self._emit(ApprovalDecided(step.id, call.id, step.tool, decision))
        if decision is Decision.APPROVED:
            return None
        why = "the call was denied" if decision is Decision.DENIED else f"nobody approved it in {timeout_s:g} seconds"
        return ToolOutcome(ok=False, text=f"Not called: {why}.")

    async def _attempts(self, step: Step, tool: ToolSpec, arguments: dict[str, Any]) -> ToolOutcome:
        """A tool that ran and failed is not called again; one that could not be reached is, where it may be."""
        for left in range(RETRIES if tool.repeatable else 0, -1, -1):
            if not self._budget.take_call():
                return ToolOutcome(ok=False, text=f"Not begun: {self._budget.out_of_calls}")
            await self._emit(ToolCalled(step.id, step.tool, shown(arguments)))
            try:
                return await self._toolset.call_tool(step.tool, arguments, timeout_s=self._budget.remaining_s)
            except ToolsetUnavailable as error:
                if not left:
                    return ToolOutcome(ok=False, text=error.message)
        raise AssertionError("the last attempt returns")

    def _arguments(self, step: Step, earlier: Mapping[str, StepResult]) -> dict[str, Any]:
        """The step's arguments with results in the place of references, and the results it depends on as evidence."""
        results = {name: done.result.model_dump(mode="json") for name, done in earlier.items() if done.result}
        tool = self._tools[step.tool]
        texts = {name for name, schema in literal_arguments(tool).items() if takes_result(schema)}
        arguments: dict[str, Any] = {
            name: _text(results[value["from"]]) if name in texts and is_reference(value) else _filled(value, results)
            for name, value in step.arguments.items()
        }
        properties = tool.input_schema.get("properties", {})
        # never as it is written: whoever writes a plan could make evidence up
        named = references(step.arguments.get(EARLIER)) or results.keys()
        if arguments.pop(EARLIER, None) is not None or (EARLIER in properties and results):
            arguments[EARLIER] = [result for name, result in results.items() if name in named]
        return arguments


async def _ended(task: asyncio.Task[StepResult]) -> asyncio.Task[StepResult]:
    await asyncio.wait([task])
    return task


def _text(result: Mapping[str, Any]) -> str:
    """What a step told, as another tool's argument: without our marks of its sources, and bounded."""
    return MARKERS.sub("", str(result["text"])).strip()[:MAX_OTHERS_CHARS]


def _filled(value: Any, results: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_filled(item, results) for item in value]
    if isinstance(value, dict):
        if is_reference(value) and value["from"] in results:
            return results[value["from"]]
        return {key: _filled(item, results) for key, item in value.items()}
    return value


def _result(outcome: ToolOutcome, server: str) -> ActionResult:
    """Our actions' structured output; any other tool's text, without evidence, whatever shape it gives itself."""
    if server:
        text = outcome.text
        notes = (f"Of what {server} told, the beginning is used.",) if len(text) > MAX_OTHERS_CHARS else ()
        return ActionResult(text=text[:MAX_OTHERS_CHARS], notes=notes)
    try:
        return ActionResult.model_validate(outcome.data)
    except ValidationError:
        return ActionResult(text=outcome.text)


def _first_words(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SUMMARY_CHARS else f"{text[:SUMMARY_CHARS].rsplit(' ', 1)[0]} …"
