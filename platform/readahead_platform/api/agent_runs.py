"""/v1/agent/runs: runs that go on by themselves and can be followed, left and taken up again. Ours."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from readahead_agents.answering.answer import AnswerOptions
from readahead_agents.events import Answered
from readahead_agents.llm.base import Message
from readahead_agents.planning.plan import written_plan
from readahead_agents.profile import UserProfile
from readahead_agents.run_limits import NO_LIMITS, RunLimits
from readahead_agents.runs.journal import Event, Run, RunStatus
from readahead_platform.api.answer_log import cost_object, event_object, usage_object
from readahead_platform.api.kb_chat_request import ChatMessage
from readahead_platform.api.listing import Paging, list_page
from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import Key, Tenant, require_scope
from readahead_platform.gateway.chat_service import ChatEvent
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.dependencies import Context
from readahead_platform.gateway.sse import event_stream, frame
from readahead_platform.responses.nesting import BoundedBody
from readahead_platform.routing.route import RequestedRoute

router = APIRouter()


class RunRequest(BoundedBody):
    """What to find out, and how."""

    model_config = ConfigDict(extra="forbid")

    kb: str = Field(min_length=1)
    question: str = Field(min_length=1, max_length=8000)
    history: list[ChatMessage] = Field(default=[], max_length=200)
    route: RequestedRoute = "agent"
    top_k: int | None = Field(default=None, ge=1, le=50)
    profile: UserProfile | None = None
    limits: RunLimits = NO_LIMITS
    plan: dict[str, Any] | None = None
    """What to do, in the place of a plan that the model makes: `steps`, or the book's `plan` of tools' names."""
    approvals: Literal["never", "ask"] = "never"
    """`ask`: tools of other servers that are not marked read-only may be used, and each call waits for approval."""
    stream: bool = Field(default=False, strict=True)

    def to_messages(self) -> list[Message]:
        return [*(turn.to_message() for turn in self.history), Message("user", self.question)]


class ApprovalDecision(BaseModel):
    """What somebody says to a call that waits."""

    model_config = ConfigDict(extra="forbid")

    approve: bool = Field(strict=True)


@router.post("/v1/agent/runs", response_model=None)
async def create_run(tenant: Tenant, key: Key, context: Context, body: RunRequest) -> Response:
    """202 with the run; its events where `stream` is asked for. Leaving the stream does not end the run."""
    if body.approvals == "ask":
        require_scope(key, "write")  # what is approved may change something
    if (name := body.limits.too_high(context.settings.agents)) is not None:
        highest = getattr(context.settings.agents, name)
        message = f"`limits.{name}` is {getattr(body.limits, name)}, and this server allows {highest} at most."
        raise ApiError(400, message, param=f"limits.{name}", code="invalid_value")
    if body.plan is not None:
        written_plan(body.plan)  # its shape; which tools there are is known within the run
        if body.route != "agent":
            message = f'`plan` is for the route "agent", and `route` is {body.route!r}.'
            raise ApiError(400, message, param="plan", code="invalid_value")
    run = await start_run(context, tenant, body)
    if body.stream:
        return await _stream(context, tenant, run.id, 0)
    return JSONResponse(run_object(run), 202)


@router.get("/v1/agent/runs")
async def list_runs(tenant: Tenant, context: Context, paging: Paging) -> dict[str, Any]:
    return list_page([run_object(run) for run in await context.runs.list_runs(tenant, "run")], paging)


@router.get("/v1/agent/runs/{run_id}")
async def get_run(run_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    """With the calls that wait for approval now."""
    run = await context.runs.get(tenant, "run", run_id)
    waiting = context.runs.approvals.waiting(run.id)
    return run_object(run) | {"approvals": [asdict(call) for call in waiting]}


@router.post("/v1/agent/runs/{run_id}/approvals/{approval_id}")
async def decide_approval(
    run_id: str, approval_id: str, tenant: Tenant, context: Context, body: ApprovalDecision
) -> dict[str, Any]:
    """Lets a waiting call be made, or not. The first word counts."""
    run = await context.runs.get(tenant, "run", run_id)
    if not context.runs.approvals.decide(run.id, approval_id, approve=body.approve):
        told = "has ended" if run.status is not RunStatus.RUNNING else "has no call that waits under this id"
        message = f"The run {run_id!r} {told}: {approval_id!r} was decided already, ran out of time or never was."
        raise ApiError(404, message, code="approval_not_found")
    return {"id": approval_id, "object": "agent.approval", "run": run.id, "approve": body.approve}


@router.post("/v1/agent/runs/{run_id}/cancel")
async def cancel_run(run_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    return run_object(await context.runs.cancel(tenant, "run", run_id))


@router.get("/v1/agent/runs/{run_id}/events", response_model=None)
async def run_events(
    run_id: str,
    tenant: Tenant,
    context: Context,
    after: Annotated[int, Query(ge=0, lt=1 << 31)] = 0,
    last_event_id: Annotated[int | None, Header(ge=0, lt=1 << 31)] = None,
) -> Response:
    """The events behind `after` (or the header `Last-Event-ID`, as browsers send it), then those to come."""
    return await _stream(context, tenant, run_id, last_event_id if last_event_id is not None else after)


async def start_run(
    context: GatewayContext, tenant: str, body: RunRequest, watch: Callable[[ChatEvent], None] | None = None
) -> Run:
    """Begins a run, for a key that may do what the body asks.

    Args:
        watch: Told of each event before it is kept.

    Raises:
        NotFound: The tenant has no such knowledge base.
        TooManyRuns: The tenant, or everybody, has as many runs going as are allowed.
    """
    kb = await context.library.get_kb(tenant, body.kb)
    request = body.model_dump(exclude={"stream"})
    return await context.runs.start(tenant, "run", request, lambda run: _events(context, run, kb.id, body, watch))


def run_object(run: Run) -> dict[str, Any]:
    outcome = dict(run.outcome or {})
    error = outcome.get("error")
    return {
        "id": run.id,
        "object": "agent.run",
        "status": run.status.value,
        "created_at": int(run.created_at.timestamp()),
        "finished_at": None if run.finished_at is None else int(run.finished_at.timestamp()),
        "request": run.request,
        "answer": None if error is not None or not outcome else outcome,
        "error": error,
    }


async def _events(
    context: GatewayContext, run: Run, kb_id: str, body: RunRequest, watch: Callable[[ChatEvent], None] | None
) -> AsyncGenerator[Event, None]:
    approver = context.runs.approvals.of(run.id) if body.approvals == "ask" else None
    options = AnswerOptions(
        top_k=body.top_k, profile=body.profile, limits=body.limits, plan=body.plan, approver=approver
    )
    began = time.monotonic()
    async with aclosing(context.chat.ask(run.tenant, kb_id, body.to_messages(), body.route, options)) as events:
        async for event in events:
            if watch is not None:
                watch(event)
            if isinstance(event, Answered):
                cost = cost_object(event.usage, time.monotonic() - began)
                yield {"type": "usage", **usage_object(event.usage), **cost}
            yield event_object(event)


async def _stream(context: GatewayContext, tenant: str, run_id: str, after: int) -> Response:
    await context.runs.get(tenant, "run", run_id)
    return await event_stream(
        _frames(context, tenant, run_id, after), context.drain, context.settings.gateway.heartbeat_s
    )


async def _frames(context: GatewayContext, tenant: str, run_id: str, after: int) -> AsyncIterator[bytes]:
    """Each with its number as the id, by which a dropped connection is taken up."""
    async with aclosing(context.runs.follow(tenant, "run", run_id, after)) as events:
        async for number, event in events:
            head = f"id: {number}\nevent: {event['type']}\n"
            yield head.encode() + frame({"run": run_id, **event})
