"""Questions of the page that are answered by a kept run, because a call of it may have to wait for somebody's word."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from readahead_agents.llm.base import Message
from readahead_agents.runs.journal import Event
from readahead_platform.api.agent_runs import RunRequest, start_run
from readahead_platform.api.kb_chat_request import ChatMessage
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.tenants import ApiKey
from readahead_platform.routing.route import RequestedRoute
from readahead_platform.web.turns import Approval, Turn
from readahead_platform.web.visitor import Visitor
from readahead_platform.web.wording import problem_line
from readahead_retrieval.types import KnowledgeBase


def may_be_asked(context: GatewayContext, key: ApiKey, route: RequestedRoute) -> bool:
    """Whether an answer may come to a call that needs the word of somebody who may write. Only then is the question
    kept as a run: so that the call can be decided from elsewhere too."""
    return "write" in key.scopes and bool(context.settings.agents.mcp_servers) and route in ("auto", "agent")


async def answered_by_run(
    visitor: Visitor, kb: KnowledgeBase, messages: Sequence[Message], route: RequestedRoute, turn: Turn
) -> None:
    """Answers the turn by a run, and waits until it ends. Cancelling ends the run.

    Raises:
        NotFound, TooManyRuns: The run cannot begin.
    """
    runs, tenant = visitor.context.runs, visitor.tenant
    history = [ChatMessage.model_validate({"role": turn.role, "content": turn.content}) for turn in messages[:-1]]
    body = RunRequest(kb=kb.id, question=turn.question, history=history, route=route, approvals="ask")
    run = await start_run(visitor.context, tenant, body, turn.apply)
    turn.run = run.id
    try:
        async for _, event in runs.follow(tenant, "run", run.id):
            _apply_ending(turn, event)
    except asyncio.CancelledError:
        await runs.cancel(tenant, "run", run.id)
        raise


def decided(context: GatewayContext, turn: Turn, approval: Approval, *, approve: bool) -> bool:
    """Gives the word on a call; False where it waits no longer."""
    if not context.runs.approvals.decide(turn.run, approval.asked.approval, approve=approve):
        return False
    approval.decided_here = True
    return True


def _apply_ending(turn: Turn, event: Event) -> None:
    """What a run ends with that is no answer."""
    match event:
        case {"type": "error", "error": {"code": code, "message": message}}:
            turn.error = problem_line(code, message)
        case {"type": "cancelled" | "interrupted"}:
            turn.stopped = True
