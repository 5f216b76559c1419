"""One chat request on a knowledge base, as OpenAI's completion or its chunks."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from readahead_agents.events import Answered, EvidenceFound, HistoryRead, QuestionRewritten, Token
from readahead_platform.api.answer_log import AnswerLog, event_object
from readahead_platform.api.kb_chat_request import KbChatRequest
from readahead_platform.api.models import model_not_found
from readahead_platform.errors import ApiError
from readahead_platform.gateway.chat_service import ChatEvent
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.sse import DONE, frame
from readahead_platform.routing.route import RouteChosen
from readahead_retrieval.errors import NotFound
from readahead_retrieval.types import Citation


class KbChat:
    """Runs the question and renders what happens. Closing what it returns ends the run."""

    def __init__(self, context: GatewayContext, tenant: str, request: KbChatRequest, base_url: str) -> None:
        self.request = request
        self._context = context
        self._tenant = tenant
        self._base_url = base_url
        self._log = AnswerLog(self._page_url)
        now = asyncio.get_running_loop().time()
        self._deadline = None if request.timeout is None else now + request.timeout
        self._head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": request.model,
        }

    async def completion(self) -> dict[str, Any]:
        """The whole answer at once."""
        async with aclosing(self._events()) as events:
            async for _event in events:
                pass
        answered = self._log.answered
        assert answered is not None, "a run ends with Answered or raises"
        message = {
            "role": "assistant",
            "content": answered.answer,
            "refusal": None,
            "annotations": self._log.annotations(),
            "readahead": self._log.readahead(),
        }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answered.finish_reason}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._log.usage()}

    async def frames(self) -> AsyncIterator[bytes]:
        """The answer as it comes. Nothing is sent before the run can no longer fail for a reason known at its start,
        so that an empty knowledge base or a prompt over the context gets its own status."""
        held: list[ChatEvent] = []
        has_begun = False
        async with aclosing(self._events()) as events:
            async for event in events:
                held.append(event)
                if isinstance(event, RouteChosen | QuestionRewritten | HistoryRead | EvidenceFound):
                    continue
                if not has_begun:
                    has_begun = True
                    yield self._chunk({"role": "assistant", "content": ""})
                for ready in held:
                    for data in self._render(ready):
                        yield data
                held.clear()
        yield DONE

    def _render(self, event: ChatEvent) -> list[bytes]:
        match event:
            case Token():
                return [self._chunk({"content": event.text})]
            case Answered():
                last = {"annotations": self._log.annotations(), "readahead": self._log.readahead()}
                frames = [self._chunk(last, finish_reason=event.finish_reason)]
                if self.request.wants_usage:
                    frames.append(self._usage_chunk())
                return frames
            case _:
                return [self._chunk({}, event=event_object(event))]

    def _usage_chunk(self) -> bytes:
        usage = self._log.usage()
        return frame({**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage})

    def _chunk(
        self, delta: dict[str, Any], *, finish_reason: str | None = None, event: dict[str, Any] | None = None
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk: dict[str, Any] = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        if self.request.wants_usage:
            chunk["usage"] = None
        if event is not None:
            chunk["readahead"] = {"event": event}
        return frame(chunk)

    async def _events(self) -> AsyncGenerator[ChatEvent, None]:
        request = self.request
        events = self._context.chat.ask(
            self._tenant, request.kb, request.to_messages(), request.route, request.to_options()
        )
        try:
            async with aclosing(events):
                while (event := await self._in_time(events)) is not None:
                    self._log.observe(event)
                    yield event
        except NotFound as error:
            if error.kind != "knowledge base":
                raise
            raise await model_not_found(self._tenant, self._context, request.model) from error
        self._count()

    async def _in_time(self, events: AsyncGenerator[ChatEvent, None]) -> ChatEvent | None:
        """The next event, None at the end, or an error once the request's own time is over."""
        try:
            async with asyncio.timeout_at(self._deadline):
                return await anext(events, None)
        except TimeoutError as error:
            message = f"The answer took longer than the {self.request.timeout:g} seconds that the request allows."
            kind, code = "timeout_error", "deadline_exceeded"
            raise ApiError(408, message, error_type=kind, param="timeout", code=code) from error

    def _count(self) -> None:
        if self._log.first_token_s is not None and self._log.route is not None:
            self._context.metrics.first_token_seconds.labels(self._log.route.chosen).observe(self._log.first_token_s)

    def _page_url(self, citation: Citation) -> str:
        links = self._context.page_links
        return self._base_url + links.url(self._tenant, citation.document_id, citation.page, citation.boxes)
