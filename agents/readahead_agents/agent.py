"""The knowledge agent: plans, acts through tools, and merges what they found into one cited answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from readahead_agents.actions.writing import ActionContext
from readahead_agents.answer import DEFAULT_OPTIONS, AnswerOptions, find_evidence
from readahead_agents.events import PlanMade, RunEvent
from readahead_agents.evidence import EvidenceSource
from readahead_agents.executor import Executor
from readahead_agents.limits import Budget, MeteredLanguageModel
from readahead_agents.llm import LanguageModel, Message
from readahead_agents.mcp.actions_server import actions_server
from readahead_agents.mcp.toolset import FilteredToolset, McpToolset
from readahead_agents.plan import Plan
from readahead_agents.planner import Planner
from readahead_agents.settings import AgentSettings
from readahead_agents.synthesis import Synthesis

EVENTS_AHEAD = 32
"""Events that a run may be ahead of whoever reads them."""


class KnowledgeAgent:
    """Answers questions over one tenant's view of one knowledge base.

    Documents are untrusted text, so a run sees only tools that declare themselves read-only.
    """

    def __init__(self, llm: LanguageModel, source: EvidenceSource, settings: AgentSettings) -> None:
        self._llm = llm
        self._source = source
        self._settings = settings

    async def run(
        self, question: str, history: Sequence[Message] = (), options: AnswerOptions = DEFAULT_OPTIONS
    ) -> AsyncGenerator[RunEvent, None]:
        """Streams the run: the plan, steps as they start and end, the answer, and last `Answered`.

        A failed step and a limit that was met are told in the answer. Closing the generator ends every step and
        every completion in flight.

        Args:
            options: Hold for every text that is written, steps' texts too, as one of them may be the answer; plans are
                made by the settings.

        Raises:
            LanguageModelUnavailable: The model does not answer, and no step came to a result.
            EmptyKnowledgeBase, QueryError, EmbedderUnavailable: From the first search.
        """
        # the run has a task of its own, as the MCP client must be closed by the task that opened it, and a
        # generator may be closed by any
        send, receive = anyio.create_memory_object_stream[RunEvent](EVENTS_AHEAD)
        task = asyncio.create_task(self._run(question, history, options, send))
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
        send: MemoryObjectSendStream[RunEvent],
    ) -> None:
        budget = Budget(self._settings)
        llm = MeteredLanguageModel(self._llm, budget)
        context = ActionContext(llm, self._source, self._settings, options)
        async with send, McpToolset(actions_server(context)) as actions:
            toolset = FilteredToolset(actions, lambda tool: tool.read_only)
            # first, so that an empty knowledge base is told before a plan is paid for
            query, found = await find_evidence(self._source, question, history, options.top_k)
            tools = await toolset.list_tools()
            plan = await Planner(llm, tools, self._settings).plan(query)
            await send.send(_plan_made(plan))
            executor = Executor(toolset, tools, budget, send.send, parallel=self._settings.parallel_steps)
            results = await executor.run(plan)
            if llm.failure is not None and all(step.result is None for step in results):
                raise llm.failure
            synthesis = Synthesis(llm, self._source, self._settings, budget, options)
            async with aclosing(synthesis.answer(question, history, results, found)) as events:
                async for event in events:
                    await send.send(event)


def _plan_made(plan: Plan) -> PlanMade:
    return PlanMade(tuple(step.to_json() for step in plan.steps), plan.reasoning, plan.repairs)
