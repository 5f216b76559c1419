"""/v1/responses, as OpenAI's SDK uses it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import JSONResponse

from readahead_agents.errors import RunNotFound
from readahead_agents.runs.journal import Event, Run, RunStatus
from readahead_platform.api.listing import Paging, list_page
from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import Key, Tenant, require_scope
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.dependencies import Context
from readahead_platform.gateway.disconnect import unless_disconnected
from readahead_platform.gateway.errors import envelope
from readahead_platform.gateway.sse import event_stream, frame
from readahead_platform.responses.deleted import with_deletions
from readahead_platform.responses.request import McpTool, ResponseRequest
from readahead_platform.responses.service import KIND, Responses, response_object
from readahead_retrieval.types import Citation

router = APIRouter()
_CUT = {
    RunStatus.CANCELLED.value: ApiError(409, "The response was cancelled, and ends here.", code="response_cancelled"),
    RunStatus.INTERRUPTED.value: ApiError(
        503, "The service stopped meanwhile; ask again.", error_type="server_error", code="response_interrupted"
    ),
}
"""What readers of a stream are told in the place of these events."""


@router.post("/v1/responses", response_model=None)
async def create_response(
    request: Request, tenant: Tenant, key: Key, context: Context, body: ResponseRequest
) -> Response:
    """One with `background` goes on by itself; any other ends when the client leaves."""
    if any(isinstance(tool, McpTool) and tool.asks for tool in body.tools):
        require_scope(key, "write")  # what is approved may change something
    responses: Responses = request.app.state.responses
    run = await responses.start(tenant, body, _page_url(request, context, tenant))
    attached = _Attached(context, run, body)
    if body.stream:
        return await event_stream(attached.frames(), context.drain, context.settings.gateway.heartbeat_s)
    if body.background:
        return JSONResponse(response_object(run))
    return JSONResponse(await unless_disconnected(request, context.drain, attached.whole()))


@router.get("/v1/responses/{response_id}", response_model=None)
async def get_response(
    response_id: str,
    tenant: Tenant,
    context: Context,
    stream: bool = False,
    starting_after: Annotated[int, Query(ge=-1, lt=1 << 31)] = -1,
) -> Response:
    """As it stands; with `stream` its events behind number `starting_after`, and those to come."""
    run = await context.runs.get(tenant, KIND, response_id)
    if not stream:
        [response] = await with_deletions(context.library, tenant, [response_object(run)])
        return JSONResponse(response)
    events = context.runs.follow(tenant, KIND, run.id, starting_after + 1)
    return await event_stream(_frames(events), context.drain, context.settings.gateway.heartbeat_s)


@router.post("/v1/responses/{response_id}/cancel")
async def cancel_response(response_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    run = await context.runs.get(tenant, KIND, response_id)
    if not run.request["response"]["background"]:
        message = f"The response {response_id!r} was not made with `background`; close its connection to end it."
        raise ApiError(400, message, param="response_id", code="not_background")
    return response_object(await context.runs.cancel(tenant, KIND, response_id))


@router.delete("/v1/responses/{response_id}")
async def delete_response(response_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    await context.runs.remove(tenant, KIND, response_id)
    return {"id": response_id, "object": "response", "deleted": True}


@router.get("/v1/responses/{response_id}/input_items")
async def list_input_items(response_id: str, tenant: Tenant, context: Context, paging: Paging) -> dict[str, Any]:
    run = await context.runs.get(tenant, KIND, response_id)
    return list_page(run.request["items"], paging)


class _Attached:
    """A response and the client that waits for it."""

    def __init__(self, context: GatewayContext, run: Run, body: ResponseRequest) -> None:
        self._runs = context.runs
        self._run = run
        self._body = body
        self._ended: dict[str, Any] = {}

    async def whole(self) -> dict[str, Any]:
        async with aclosing(self.frames()) as frames:
            async for _ in frames:
                pass
        return self._ended

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Leaving them early ends a response that is not made in the background."""
        run, has_ended = self._run, False
        try:
            async with aclosing(_frames(self._runs.follow(run.tenant, KIND, run.id))) as frames:
                async for data in frames:
                    yield data
            has_ended = True
            if not self._body.stream:
                self._ended = response_object(await self._runs.get(run.tenant, KIND, run.id))
        finally:
            with suppress(RunNotFound):  # it went with its conversation
                if not has_ended and not self._body.background:
                    await self._runs.cancel(run.tenant, KIND, run.id)
                if not self._body.store:
                    await self._runs.remove(run.tenant, KIND, run.id)


async def _frames(events: AsyncGenerator[tuple[int, Event], None]) -> AsyncGenerator[bytes, None]:
    """OpenAI's events only, among which an error ends what was cancelled or interrupted."""
    async with aclosing(events) as numbered:
        async for _, event in numbered:
            if event["type"] in _CUT:
                event = {"type": "error", **envelope(_CUT[event["type"]])}
            if event["type"].startswith("response.") or event["type"] == "error":
                yield f"event: {event['type']}\n".encode() + frame(event)


def _page_url(request: Request, context: GatewayContext, tenant: str) -> Callable[[Citation], str]:
    base = str(request.base_url).rstrip("/")

    def url(citation: Citation) -> str:
        return base + context.page_links.url(tenant, citation.document_id, citation.page, citation.boxes)

    return url
