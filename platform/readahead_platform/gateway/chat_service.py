"""Questions on a knowledge base. The chat API, the command line (over HTTP) and the web page all ask here."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence

from readahead_agents.agent import KnowledgeAgent
from readahead_agents.answer import AnswerOptions, answer
from readahead_agents.events import RunEvent
from readahead_agents.evidence import EvidenceSource
from readahead_agents.llm import LanguageModel, Message
from readahead_agents.settings import AgentSettings
from readahead_platform.errors import ApiError
from readahead_platform.gateway.library_source import LibrarySource
from readahead_platform.routing.route import RequestedRoute, Route, RouteChosen, choose_route
from readahead_retrieval.library import Library

ChatEvent = RouteChosen | RunEvent
DEFAULT_OPTIONS = AnswerOptions()


class ChatService:
    """Chooses the route and tells what happens on it."""

    def __init__(self, library: Library, llm: LanguageModel, settings: AgentSettings, score_floor: float) -> None:
        self._library = library
        self._llm = llm
        self._settings = settings
        self._score_floor = score_floor

    async def ask(
        self,
        tenant: str,
        kb: str,
        messages: Sequence[Message],
        route: RequestedRoute = "auto",
        options: AnswerOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yields `RouteChosen`, then the run's events to `Answered`. Closing the generator ends all work for it.

        Args:
            kb: Name or id.
            messages: The conversation; its last message is the user's question.

        Raises:
            ApiError: No question, or a route that cannot be taken.
            NotFound: The tenant has no such knowledge base.
            EmptyKnowledgeBase, LanguageModelError, …: What the route raises.
        """
        question = _question(messages)
        chosen = choose_route(route, question)
        found = await self._library.get_kb(tenant, kb)
        source = LibrarySource(self._library, tenant, found, self._score_floor)
        yield chosen
        events = self._run(chosen.chosen, source, question, messages[:-1], options)
        async with contextlib.aclosing(events):
            async for event in events:
                yield event

    def _run(
        self,
        route: Route,
        source: EvidenceSource,
        question: str,
        history: Sequence[Message],
        options: AnswerOptions,
    ) -> AsyncGenerator[RunEvent, None]:
        if route == "agent":
            return KnowledgeAgent(self._llm, source, self._settings).run(question, history)
        return answer(self._llm, source, question, history, self._settings, options)


def _question(messages: Sequence[Message]) -> str:
    if not messages or messages[-1].role != "user" or not messages[-1].content.strip():
        raise ApiError(400, "The last message must be the user's question.", param="messages", code="invalid_value")
    return messages[-1].content
