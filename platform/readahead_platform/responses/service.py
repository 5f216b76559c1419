"""Makes responses: what is asked becomes a run, whose events are OpenAI's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from readahead_agents.errors import RunNotFound
from readahead_agents.runs.journal import Event, Kind, Run, RunStatus
from readahead_platform.errors import ApiError
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.errors import envelope, to_api_error
from readahead_platform.responses.approvals import approved_calls, check_may_be_made, decisions, without_marks
from readahead_platform.responses.from_documents import DocumentAnswer
from readahead_platform.responses.from_model import ModelAnswer
from readahead_platform.responses.items import ChatMessage, Item, chat_messages, kept_items, turns
from readahead_platform.responses.request import MAX_CHARS, McpTool, ResponseRequest
from readahead_platform.responses.tool_servers import ToolServers
from readahead_platform.responses.writer import ResponseWriter
from readahead_retrieval.types import Citation

KIND: Kind = "response"
_ANSWERED = frozenset({"response.completed", "response.incomplete"})
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
            ConversationNotFound, ConversationFull, ItemExists: Of the conversation that it is to be a turn of.
            AlreadyDecided: A call of a tool has the client's word already.
        """
        items = kept_items(request.input)
        before, upto = await self._before(tenant, request, items)
        conversation = _conversation(before, items)
        check_may_be_made(approved_calls(conversation), request)  # what is refused is refused before it is decided
        if request.kb is not None:
            await self._context.library.get_kb(tenant, request.kb)
        self._servers.check([tool for tool in request.tools if isinstance(tool, McpTool)])
        kept: dict[str, Any] = {"response": _echo(request), "items": items}
        if request.conversation is None:
            kept["conversation"] = without_marks(conversation)
        else:  # what was said is the conversation's, and goes with it
            kept["upto"] = upto

        def events(run: Run) -> AsyncGenerator[Event, None]:
            return self._kept(run, self._events(run, request, conversation, url))

        turn_of = request.conversation.id if request.conversation is not None else None
        return await self._context.runs.start(
            tenant, KIND, kept, events, conversation=turn_of, decisions=decisions(conversation)
        )

    async def _before(
        self, tenant: str, request: ResponseRequest, new: Sequence[Item]
    ) -> tuple[list[ChatMessage], int]:
        """What was said before, and the number of the conversation's item that it ends with; instructions hold for one
        response, as in OpenAI's API."""
        if request.conversation is not None:
            found = await self._context.conversations.check_room(
                tenant, request.conversation.id, [item["id"] for item in new]
            )
            items = await self._context.conversations.items(tenant, found.id, found.last_number)
            return chat_messages(items), found.last_number
        if request.previous_response_id is not None:
            return await self._upto_response(tenant, request.previous_response_id), 0
        return [], 0

    async def _upto_response(self, tenant: str, response_id: str) -> list[ChatMessage]:
        try:
            run = await self._context.runs.get(tenant, KIND, response_id)
        except RunNotFound as error:
            message = f"No response {response_id!r} was found."
            raise ApiError(404, message, param="previous_response_id", code="previous_response_not_found") from error
        if run.status is RunStatus.RUNNING:
            message = f"The response {response_id!r} is still in progress."
            raise ApiError(400, message, param="previous_response_id", code="response_in_progress")
        answered = chat_messages(response_object(run)["output"])
        if run.conversation is None:
            return [*run.request["conversation"], *answered]
        items = await self._context.conversations.items(tenant, run.conversation, run.request["upto"])
        return [*chat_messages([*items, *run.request["items"]]), *answered]

    async def _kept(self, run: Run, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Adds the turn to its conversation, whole, before it is told that it has ended. One that failed or was
        cancelled is no turn."""
        async with aclosing(events):
            async for event in events:
                if run.conversation is not None and event["type"] in _ANSWERED:
                    turn = [*run.request["items"], *event["response"]["output"]]
                    store = self._context.conversations
                    # deleting a conversation cancels its turns: it is there
                    await store.append(run.tenant, run.conversation, turn, may_overflow=True)
                yield event

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
            plain = ModelAnswer(context, self._servers, run.tenant, request)
            answer = plain.events(writer, said)
        try:
            async with aclosing(answer) as events:
                async for event in events:
                    yield event
        except Exception as error:  # noqa: BLE001 - the top of a response: whatever ends it is told in its shape
            begun = {item.get("approval_request_id") for item in writer.output}
            approved = {call["id"] for call in approved_calls(conversation)}
            await context.runs.withdraw(run.tenant, approved - begun)
            told = envelope(to_api_error(error))["error"]
            yield writer.fail({"code": told["code"] or "server_error", "message": told["message"]})


def _conversation(before: Sequence[ChatMessage], items: Sequence[Item]) -> list[ChatMessage]:
    """All that was said, to its last turn."""
    messages = [*without_marks(before), *chat_messages(items)]
    if sum(len(message["content"] or "") for message in messages) > MAX_CHARS:
        message = f"What was said has over {MAX_CHARS} characters; begin a new conversation."
        raise ApiError(400, message, param="input", code="conversation_too_long")
    if not messages or messages[-1]["role"] not in {"user", "tool"}:
        raise ApiError(400, "`input` must end with what the user says.", param="input", code="invalid_value")
    return messages


def response_object(run: Run) -> dict[str, Any]:
    """The response as it stands: its last event's, where it has ended."""
    if run.outcome is not None and "response" in run.outcome:
        ended: dict[str, Any] = run.outcome["response"]
        return ended
    status = _STATUS.get(run.status, "failed")
    error: Mapping[str, Any] | None = None
    if status == "failed":
        told = run.outcome["error"] if run.outcome is not None and "error" in run.outcome else {}
        message = told.get("message") or "The service stopped while the answer was written; ask again."
        error = {"code": told.get("code") or "server_error", "message": message}
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
        "conversation": request.conversation.model_dump() if request.conversation is not None else None,
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
