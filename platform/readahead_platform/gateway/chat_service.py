"""Questions on a knowledge base. The chat API, the command line (over HTTP) and the web page all ask here."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace

from readahead_agents.agent import KnowledgeAgent
from readahead_agents.answering.answer import AnswerOptions, answer
from readahead_agents.answering.held_pack import HeldPack
from readahead_agents.answering.pack_answer import answer_from_pack
from readahead_agents.events import Answered, QuestionRewritten, RunEvent
from readahead_agents.llm.base import LanguageModel, Message
from readahead_agents.memory.standalone import standalone
from readahead_agents.settings import AgentSettings
from readahead_platform.errors import ApiError
from readahead_platform.gateway.library_source import LibrarySource
from readahead_platform.gateway.selection import EVERYTHING, Selection
from readahead_platform.packs.kb_packs import KbPacks
from readahead_platform.packs.kb_sizes import KbSizes
from readahead_platform.routing.reading_speed import ReadingSpeed
from readahead_platform.routing.route import RequestedRoute, Route, RouteChosen
from readahead_platform.routing.router import Asked, Routed, Router
from readahead_retrieval.library import Library

ChatEvent = RouteChosen | RunEvent
DEFAULT_OPTIONS = AnswerOptions()


class ChatService:
    """Chooses the route and tells what happens on it."""

    def __init__(
        self,
        library: Library,
        llm_of: Callable[[str], LanguageModel],
        packs: KbPacks,
        settings: AgentSettings,
        *,
        score_floor: float,
        cag_max_tokens: int,
    ) -> None:
        self._library = library
        self._llm_of = llm_of
        self._packs = packs
        self._settings = settings
        self._score_floor = score_floor
        speed = ReadingSpeed(packs.llm)
        self._router = Router(packs, KbSizes(library), speed, llm_of, settings, cag_max_tokens)

    async def ask(
        self,
        tenant: str,
        kb: str,
        messages: Sequence[Message],
        route: RequestedRoute = "auto",
        options: AnswerOptions = DEFAULT_OPTIONS,
        selection: Selection = EVERYTHING,
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yields `RouteChosen`, then the run's events to `Answered`. Closing the generator ends all work for it.

        Args:
            kb: Name or id.
            messages: The conversation; its last message is the user's question.
            selection: What is searched. A part of it is never answered from a pack, which holds the whole.

        Raises:
            ApiError: No question, or a route that cannot be taken.
            NotFound: The tenant has no such knowledge base.
            EmptyKnowledgeBase, LanguageModelError, …: What the route raises.
        """
        question, history = _question(messages), messages[:-1]
        found = await self._library.get_kb(tenant, kb)
        asked = await standalone(self._llm_of(tenant), question, history, self._settings.follow_ups)
        source = LibrarySource(
            self._library,
            tenant,
            found,
            self._score_floor,
            self._settings.link_hosts,
            selection,
            standalone={question: asked.question},
        )
        routed = await self._router.choose(
            Asked(tenant, found, asked.question, route, options, selection == EVERYTHING), source
        )
        yield routed.chosen
        if asked.by is not None:
            yield QuestionRewritten(asked.question, asked.by)
        if routed.chosen.chosen == "cag":
            events = self._run_on_pack(routed, source, question, history, options)
        else:
            held = await self._held(tenant, routed)
            events = self._run(routed.chosen.chosen, source, question, history, options, held)
        async with contextlib.aclosing(events):
            async for event in events:
                yield replace(event, usage=event.usage + asked.usage) if isinstance(event, Answered) else event

    async def _held(self, tenant: str, routed: Routed) -> HeldPack | None:
        """The pack for the agent's own use, where the router found one."""
        if routed.pack is None:
            return None
        try:
            return HeldPack(await self._packs.messages(tenant, routed.pack["id"]), int(routed.pack["tokens"]))
        except ApiError:
            return None  # a search does what the pack would have done

    async def _run_on_pack(
        self,
        routed: Routed,
        source: LibrarySource,
        question: str,
        history: Sequence[Message],
        options: AnswerOptions,
    ) -> AsyncGenerator[RunEvent, None]:
        assert routed.pack is not None, "the router gives the pack that it chose"
        read = await self._packs.messages(source.tenant, routed.pack["id"])
        if routed.chosen.pack_document is not None:
            source = source.only(routed.chosen.pack_document)
        llm, tokens = self._llm_of(source.tenant), int(routed.pack["tokens"])
        events = answer_from_pack(llm, source, read, tokens, question, history, self._settings, options)
        async with contextlib.aclosing(events):
            async for event in events:
                yield event

    def _run(
        self,
        route: Route,
        source: LibrarySource,
        question: str,
        history: Sequence[Message],
        options: AnswerOptions,
        held: HeldPack | None,
    ) -> AsyncGenerator[RunEvent, None]:
        llm = self._llm_of(source.tenant)
        if route == "agent":
            agent = KnowledgeAgent(llm, source, self._settings, held)
            return agent.run(question, history, options, source.standalone[question])
        return answer(llm, source, question, history, self._settings, options)


def _question(messages: Sequence[Message]) -> str:
    if not messages or messages[-1].role != "user" or not messages[-1].content.strip():
        raise ApiError(400, "The last message must be the user's question.", param="messages", code="invalid_value")
    return messages[-1].content
