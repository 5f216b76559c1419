"""A response from a knowledge base: a file search, then a cited message."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from readahead_agents.answering.answer import AnswerOptions
from readahead_agents.events import Answered, EvidenceFound, QuestionRewritten, Token
from readahead_agents.llm.base import Message
from readahead_platform.api.answer_log import AnswerLog
from readahead_platform.api.passage_files import files_of
from readahead_platform.gateway.chat_service import ChatEvent, ChatService
from readahead_platform.gateway.scores import score
from readahead_platform.gateway.selection import EVERYTHING, Selection
from readahead_platform.responses.annotations import file_citation
from readahead_platform.responses.request import ResponseRequest
from readahead_platform.responses.writer import Event, Item, MessageWriter, ResponseWriter
from readahead_platform.routing.route import RouteChosen
from readahead_retrieval.library import Library
from readahead_retrieval.types import Attachment, Citation, Evidence

PageUrl = Callable[[Citation], str]
_RESULTS = "file_search_call.results"


class DocumentAnswer:
    """Answers one request of one tenant."""

    def __init__(
        self, chat: ChatService, library: Library, tenant: str, request: ResponseRequest, url: PageUrl
    ) -> None:
        self._chat = chat
        self._library = library
        self._tenant = tenant
        self._request = request
        self._log = AnswerLog(url)

    async def events(self, writer: ResponseWriter, conversation: Sequence[Message]) -> AsyncGenerator[Event, None]:
        """The events behind those that begin a response, to its last one."""
        request = self._request
        assert request.kb is not None
        options = AnswerOptions(
            max_tokens=request.max_output_tokens,
            temperature=request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            top_k=request.top_k,
            profile=request.readahead.profile,
        )
        search = _Search(writer, conversation[-1].content)
        message = MessageWriter(writer)
        route, selection = request.readahead.route, await self._selection(request.kb)
        asked = self._chat.ask(self._tenant, request.kb, conversation, route, options, selection)
        async with aclosing(asked) as told:
            async for event in told:
                self._log.observe(event)
                if isinstance(event, QuestionRewritten):
                    search.asks(event.question)
                if isinstance(event, EvidenceFound) and _RESULTS in request.include:
                    search.found(await self._results(request.kb, event.evidence))
                for typed in self._typed(event, search, message):
                    yield typed
                if isinstance(event, Answered):
                    for citation in event.citations:
                        for typed in message.annotate(await file_citation(self._library, self._tenant, citation)):
                            yield typed
                    for typed in self._ending(event, writer, search, message):
                        yield typed

    def _typed(self, event: ChatEvent, search: _Search, message: MessageWriter) -> Iterator[Event]:
        match event:
            case RouteChosen():
                yield from search.begin()
            case Token():
                yield from search.end()
                yield from message.write(event.text)

    def _ending(
        self, answered: Answered, writer: ResponseWriter, search: _Search, message: MessageWriter
    ) -> Iterator[Event]:
        yield from search.end()
        cut = "max_output_tokens" if answered.finish_reason == "length" else None
        yield from message.close("completed" if cut is None else "incomplete")
        yield writer.complete(self._log.usage(), cut, readahead=self._log.readahead())

    async def _selection(self, kb: str) -> Selection:
        tool = self._request.file_search
        if tool is None or not tool.selects:
            return EVERYTHING
        documents = None
        if tool.filters is not None:
            documents = tuple(await self._library.matching(self._tenant, kb, tool.filters.matches))
        return Selection(documents, tool.ranking_options.score_threshold)

    async def _results(self, kb: str, found: Sequence[Evidence]) -> list[dict[str, Any]]:
        """Without those whose file was deleted meanwhile."""
        filters = self._request.file_search.filters if self._request.file_search is not None else None
        files = await files_of(self._library, self._tenant, kb, filters)
        return [_result(passage, files[passage.document_id]) for passage in found if passage.document_id in files]


def _result(passage: Evidence, file: Attachment) -> dict[str, Any]:
    return {
        "file_id": file.file_id,
        "filename": file.name,
        "score": score(passage),
        "text": passage.text,
        "attributes": dict(file.attributes),
        "page": passage.page,
    }


class _Search:
    """The one `file_search_call` of a response, whatever the route does."""

    def __init__(self, writer: ResponseWriter, query: str) -> None:
        self._writer = writer
        self._item: Item = {
            "id": f"fs_{secrets.token_hex(12)}",
            "type": "file_search_call",
            "status": "in_progress",
            "queries": [query],
            "results": None,
        }
        self._has_ended = False

    def begin(self) -> Iterator[Event]:
        yield self._writer.add(self._item)
        yield self._writer.tell("response.file_search_call.in_progress", self._item)
        yield self._writer.tell("response.file_search_call.searching", self._item)

    def asks(self, query: str) -> None:
        """What is searched for in the question's place."""
        self._item["queries"] = [query]

    def found(self, results: Sequence[dict[str, Any]]) -> None:
        self._item["results"] = [*(self._item["results"] or []), *results]

    def end(self) -> Iterator[Event]:
        if self._has_ended:
            return
        self._has_ended = True
        yield self._writer.tell("response.file_search_call.completed", self._item)
        yield self._writer.finish(self._item)
