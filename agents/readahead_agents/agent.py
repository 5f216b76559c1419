"""The knowledge agent: plans, acts through tools, and merges what they found into one cited answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from readahead_agents.actions.writing import ActionContext
from readahead_agents.answering.answer import DEFAULT_OPTIONS, AnswerOptions, find_evidence, not_covered
from readahead_agents.answering.held_pack import HeldPack
from readahead_agents.answering.second_look import is_covered
from readahead_agents.answering.synthesis import Synthesis
from readahead_agents.answering.told import ToldSource
from readahead_agents.answering.units import halves
from readahead_agents.errors import LanguageModelUnavailable
from readahead_agents.events import PlanMade, QuestionRewritten, Replanned, RunEvent
from readahead_agents.evidence import EvidenceSource
from readahead_agents.executor import Approval, Emit, Executor, StepResult
from readahead_agents.limits import Budget, MeteredLanguageModel
from readahead_agents.llm.base import LanguageModel, Message
from readahead_agents.mcp.actions_server import actions_server
from readahead_agents.mcp.external import JoinedToolset, external_tools
from readahead_agents.mcp.toolset import FilteredToolset, McpToolset
from readahead_agents.planning.plan import Plan
from readahead_agents.planning.planner import Planner
from readahead_agents.planning.question_kind import compared_sides
from readahead_agents.planning.replanning import MAX_REPLANS, asks_the_same, continued, reason_to_replan
from readahead_agents.settings import AgentSettings
from readahead_retrieval.types import Evidence

EVENTS_AHEAD = 32
"""Events that a run may be ahead of whoever reads them."""


class KnowledgeAgent:
    """Answers questions over one tenant's view of one knowledge base.

    Documents are untrusted text, so a run sees only tools that declare themselves read-only, and those of external
    servers that the operator approved; others only where somebody approves each call. A server that is not there is
    missed by name.
    """

    def __init__(
        self, llm: LanguageModel, source: EvidenceSource, settings: AgentSettings, pack: HeldPack | None = None
    ) -> None:
        self._llm = llm
        self._source = source
        self._settings = settings
        self._pack = pack

    async def run(
        self,
        question: str,
        history: Sequence[Message] = (),
        options: AnswerOptions = DEFAULT_OPTIONS,
        standalone: str | None = None,
    ) -> AsyncGenerator[RunEvent, None]:
        """Streams the run: the plan, steps as they start and end, the answer, and last `Answered`.

        What the documents do not answer is refused as on other routes, by the question that was asked, and before a
        plan is made; not where it has parts, each of which a step may answer, or where other servers have tools.
        A failed step and a limit that was met are told in the answer. Closing the generator ends every step and
        every completion in flight.

        Args:
            options: Hold for every text that is written, steps' texts too, as one of them may be the answer; plans are
                made by the settings.
            standalone: A question that leans on the turns before it, made to stand by itself, as `source` searches for
                it: plans and steps see no history.

        Raises:
            LanguageModelUnavailable: The model does not answer, and no step came to a result.
            EmptyKnowledgeBase, QueryError, EmbedderUnavailable: From the first search.
            PlanInvalid: `options.plan` can't be executed with the tools there are.
        """
        # the run has a task of its own, as the MCP client must be closed by the task that opened it, and a
        # generator may be closed by any
        send, receive = anyio.create_memory_object_stream[RunEvent](EVENTS_AHEAD)
        task = asyncio.create_task(self._run(question, history, options, standalone, send))
        try:
            async with receive:
                async for event in receive:
                    yield event
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(
        self,
        question: str,
        history: Sequence[Message],
        options: AnswerOptions,
        standalone: str | None,
        send: MemoryObjectSendStream[RunEvent],
    ) -> None:
        settings = options.limits.applied(self._settings)
        budget = Budget(settings)
        llm = MeteredLanguageModel(self._llm, budget)
        asked_as = {standalone: question} if standalone is not None else {}
        context = ActionContext(llm, self._source, settings, options, self._pack, asked_as)
        approval = None if options.approver is None else Approval(options.approver, settings.approval_s)
        async with send:
            # first, so that an empty knowledge base is told before a plan is paid for
            query, found = await find_evidence(self._source, question, history, options.top_k)
            if query != question:
                await send.send(QuestionRewritten(query, "rules"))
            elif standalone is not None:
                query = standalone
            if await self._is_beyond(question, found):
                for told in not_covered(self._source, question, found):
                    await send.send(told)
                return
            async with (
                McpToolset(actions_server(context)) as actions,
                external_tools(settings.mcp_servers, asking=approval is not None) as external,
            ):
                own = FilteredToolset(actions, lambda tool: tool.read_only)
                toolset = JoinedToolset([own, *external.toolsets])
                tools = await toolset.list_tools()
                executor = Executor(
                    toolset, tools, budget, send.send, parallel=settings.parallel_steps, approval=approval
                )
                work = _Work(Planner(llm, tools, settings), executor, llm, budget, send.send, external.missing)
                results = await work.results(query, options.plan)
            if llm.failure is not None and all(step.result is None for step in results):
                raise llm.failure
            synthesis = Synthesis(llm, ToldSource(self._source), settings, budget, options, self._pack)
            notes = (*external.missing, *work.notes, *executor.calls.loops)
            async with aclosing(synthesis.answer(question, history, results, found, notes)) as events:
                async for event in events:
                    await send.send(event)

    async def _is_beyond(self, question: str, found: Sequence[Evidence]) -> bool:
        """Whether the documents do not answer the question, as far as one search can tell."""
        if self._settings.mcp_servers or halves(question) or compared_sides(question) is not None:
            return False
        return not await is_covered(self._source, question, found)


@dataclass(slots=True)
class _Work:
    """Plans and acts until there is something to answer from, or nothing more to try."""

    planner: Planner
    executor: Executor
    llm: MeteredLanguageModel
    budget: Budget
    emit: Emit
    missing: tuple[str, ...]
    notes: list[str] = field(default_factory=list)

    async def results(self, question: str, given: Mapping[str, Any] | None) -> list[StepResult]:
        """What all steps came to, of all plans: the caller's first, where one is given."""
        plan = await self.planner.plan(question) if given is None else self.planner.given(given, question)
        await self._tell(plan)
        results = await self.executor.run(plan)
        latest = results
        for _ in range(MAX_REPLANS):
            reason = reason_to_replan(plan, latest)
            if reason is None or self.llm.failure is not None or self.budget.limits_met:
                break
            again = await self._planned_anew(question, reason, results)
            if again is None:
                break
            plan = again
            latest = await self.executor.run(plan)
            results = [*results, *latest]
        return results

    async def _planned_anew(self, question: str, reason: str, before: Sequence[StepResult]) -> Plan | None:
        """Another plan; None where none comes, or only what was done already."""
        await self.emit(Replanned(reason))
        try:
            plan = continued(await self.planner.plan(question, reason), len(before))
        except LanguageModelUnavailable as error:
            self.notes.append(f"No other plan could be made: {error.message}")
            return None
        if asks_the_same(plan, before):
            self.notes.append("Another plan was asked for, and it was what had been done already.")
            return None
        await self._tell(plan)
        return plan

    async def _tell(self, plan: Plan) -> None:
        await self.emit(PlanMade(plan, self.missing))
