"""Makes responses: what is asked becomes a run, whose events are OpenAI's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from readahead_agents.errors import RunNotFound
from readahead_agents.runs.journal import Event, Kind, Run, RunStatus
from readahead_platform.errors import ApiError
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.errors import envelope, to_api_error
from readahead_platform.responses.from_documents import DocumentAnswer
from readahead_platform.responses.from_model import ModelAnswer
from readahead_platform.responses.items import ChatMessage, chat_messages, input_items, output_messages, turns
from readahead_platform.responses.request import MAX_CHARS, McpTool, ResponseRequest
from readahead_platform.responses.tool_servers import ToolServers
from readahead_platform.responses.writer import ResponseWriter
from readahead_retrieval.types import Citation

KIND: Kind = "response"
_STATUS = {
    RunStatus.RUNNING: "in_progress",
    RunStatus.CANCELLED: "cancelled",
    RunStatus.INTERRUPTED: "failed",
    RunStatus.FAILED: "failed",
}


class Responses:
    """The responses of all tenants."""

    def __init__(self, context: GatewayContext, servers: ToolServers) -> None:
        self._context = context
        self._servers = servers

    async def start(self, tenant: str, request: ResponseRequest, url: Callable[[Citation], str]) -> Run:
        """Begins a response.

        Raises:
            ApiError: 404 for an unknown knowledge base or previous response, 400 for what cannot be asked.
        """
        conversation = await self._conversation(tenant, request)
        if request.kb is not None:
            await self._context.library.get_kb(tenant, request.kb)
        self._servers.check([tool for tool in request.tools if isinstance(tool, McpTool)])
        kept = {"response": _echo(request), "items": input_items(request.input), "conversation": conversation}

        def events(run: Run) -> AsyncGenerator[Event, None]:
            return self._events(run, request, conversation, url)

        return await self._context.runs.start(tenant, KIND, kept, events)

    async def _conversation(self, tenant: str, request: ResponseRequest) -> list[ChatMessage]:
        """What was said before and now; instructions hold for one response, as in OpenAI's API."""
        before: list[ChatMessage] = []
        if request.previous_response_id is not None:
            before = await self._before(tenant, request.previous_response_id)
        messages = [*before, *chat_messages(request.input)]
        if sum(len(message["content"] or "") for message in messages) > MAX_CHARS:
            message = f"The conversation has over {MAX_CHARS} characters; begin one without `previous_response_id`."
            raise ApiError(400, message, param="input", code="conversation_too_long")
        if not messages or messages[-1]["role"] not in {"user", "tool"}:
            raise ApiError(400, "`input` must end with what the user says.", param="input", code="invalid_value")
        return messages

    async def _before(self, tenant: str, response_id: str) -> list[ChatMessage]:
        try:
            run = await self._context.runs.get(tenant, KIND, response_id)
        except RunNotFound as error:
            message = f"No response {response_id!r} was found."
            raise ApiError(404, message, param="previous_response_id", code="previous_response_not_found") from error
        if run.status is RunStatus.RUNNING:
            message = f"The response {response_id!r} is still in progress."
            raise ApiError(400, message, param="previous_response_id", code="response_in_progress")
        return [*run.request["conversation"], *output_messages(response_object(run)["output"])]

    async def _events(
        self, run: Run, request: ResponseRequest, conversation: list[ChatMessage], url: Callable[[Citation], str]
    ) -> AsyncGenerator[Event, None]:
        writer = ResponseWriter(response_object(run))
        for event in writer.begin():
            yield event
        context, instructions = self._context, request.instructions
        said = [{"role": "system", "content": instructions}, *conversation] if instructions else conversation
        if request.kb is not None:
            documents = DocumentAnswer(context.chat, context.library, run.tenant, request, url)
            answer = documents.events(writer, turns(said))
        else:
            answer = ModelAnswer(context.llm, self._servers, run.tenant, request).events(writer, said)
        try:
            async with aclosing(answer) as events:
                async for event in events:
                    yield event
        except Exception as error:  # noqa: BLE001 - the top of a response: whatever ends it is told in its shape
            told = envelope(to_api_error(error))["error"]
            yield writer.fail({"code": told["code"] or "server_error", "message": told["message"]})


def response_object(run: Run) -> dict[str, Any]:
    """The response as it stands: its last event's, where it has ended."""
    if run.outcome is not None and "response" in run.outcome:
        ended: dict[str, Any] = run.outcome["response"]
        return ended
    status = _STATUS.get(run.status, "failed")
    error: Mapping[str, Any] | None = None
    if status == "failed":
        error = {"code": "server_error", "message": "The service stopped while the answer was written; ask again."}
    return {
        "id": run.id,
        "object": "response",
        "created_at": int(run.created_at.timestamp()),
        "status": status,
        "error": error,
        "incomplete_details": None,
        "output": [],
        "usage": None,
        **run.request["response"],
    }


def _echo(request: ResponseRequest) -> dict[str, Any]:
    """What a response repeats of its request."""
    return {
        "model": request.model,
        "instructions": request.instructions,
        "previous_response_id": request.previous_response_id,
        "tools": [tool.model_dump(mode="json", exclude_none=True) for tool in request.tools],
        "tool_choice": request.tool_choice,
        "parallel_tool_calls": request.parallel_tool_calls,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.max_tool_calls,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "text": {"format": request.text.format.model_dump(mode="json", by_alias=True, exclude_none=True)},
        "truncation": request.truncation,
        "background": request.background,
        "store": request.store,
        "metadata": request.metadata,
        "reasoning": {"effort": None, "summary": None},
    }
