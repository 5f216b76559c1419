"""Gathers what a route is chosen from, and chooses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from readahead_agents.answering.answer import AnswerOptions
from readahead_agents.errors import LanguageModelError
from readahead_agents.evidence import EvidenceSource
from readahead_agents.llm.base import LanguageModel
from readahead_agents.settings import AgentSettings
from readahead_platform.errors import ApiError
from readahead_platform.packs.kb_pack import KbPack
from readahead_platform.packs.kb_packs import KbPacks
from readahead_platform.packs.kb_sizes import KbSizes
from readahead_platform.packs.offer import NO_PACK
from readahead_platform.routing.facts import Concentration, KbFacts, Room, concentration
from readahead_platform.routing.reading_speed import ReadingSpeed
from readahead_platform.routing.route import RequestedRoute, RouteChosen, choose_route, kind_of, limit_of
from readahead_retrieval.errors import RetrievalError
from readahead_retrieval.types import KnowledgeBase


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to be routed."""

    tenant: str
    kb: KnowledgeBase
    question: str
    route: RequestedRoute
    options: AnswerOptions
    of_all: bool = True
    """Whether all of the knowledge base may be read for it."""


@dataclass(frozen=True, slots=True)
class Routed:
    """The route, and the pack that it reads."""

    chosen: RouteChosen
    pack: Mapping[str, Any] | None = None
    """On route cag, as /v1/packs shows it; on route agent the one that a run may read, where there is one."""


class Router:
    """Chooses the route of each question by facts."""

    def __init__(
        self,
        packs: KbPacks,
        sizes: KbSizes,
        speed: ReadingSpeed,
        llm_of: Callable[[str], LanguageModel],
        settings: AgentSettings,
        cag_max_tokens: int,
    ) -> None:
        self._packs = packs
        self._sizes = sizes
        self._speed = speed
        self._llm_of = llm_of
        self._settings = settings
        self._cag_max_tokens = cag_max_tokens

    async def choose(self, asked: Asked, source: EvidenceSource) -> Routed:
        """The route and its pack.

        Args:
            source: Is searched for the question where the place of the evidence decides; it remembers the search.

        Raises:
            ApiError: A route that was asked for and cannot be taken.
        """
        pack = await self._pack(asked)
        room = await self._room(asked)
        facts = await self._facts(asked, pack, source)
        chosen = choose_route(asked.route, asked.question, pack.offer(), self._cag_max_tokens, room, facts)
        match chosen.chosen:
            case "cag" if chosen.pack_document is not None:
                return Routed(chosen, pack.of_documents[chosen.pack_document])
            case "cag":
                return Routed(chosen, pack.current)
            case "agent" if pack.is_ready and pack.offer().tokens <= limit_of(self._cag_max_tokens, room):
                return Routed(chosen, pack.current)
            case _:
                return Routed(chosen)

    async def _pack(self, asked: Asked) -> KbPack:
        """What packs there are; one whose documents have changed is built anew beside, while questions read of it what
        has stayed the same."""
        if asked.route == "rag" or not asked.of_all:
            return KbPack()
        try:
            pack = await self._packs.find(asked.tenant, asked.kb)
            return await self._packs.rebuild_if_stale(asked.tenant, asked.kb, pack) if asked.route != "agent" else pack
        except ApiError:
            if asked.route == "cag":
                raise
            return KbPack()  # a search has the last word on whether anything answers

    async def _room(self, asked: Asked) -> Room:
        try:
            window = await self._llm_of(asked.tenant).context_window()
        except LanguageModelError:
            window = None  # the route itself tells what is wrong with the model
        answer = asked.options.max_tokens or self._settings.answer_tokens
        read_s = await self._speed.seconds_per_token(asked.tenant)
        return Room(window, answer, self._settings.evidence_tokens, read_s)

    async def _facts(self, asked: Asked, pack: KbPack, source: EvidenceSource) -> KbFacts:
        evidence = await self._evidence(asked, source)
        return KbFacts(
            tokens=await self._tokens(asked, pack),
            pending=pack.pending,
            changed=pack.changed,
            evidence=evidence,
            document_pack=pack.document_offer(evidence.document_id) if evidence else NO_PACK,
        )

    async def _tokens(self, asked: Asked, pack: KbPack) -> int | None:
        if pack.is_ready or not pack.documents:
            return None  # the pack tells, or nobody asked what there is
        llm = self._llm_of(asked.tenant)
        return await self._sizes.tokens(asked.tenant, asked.kb, pack.content, pack.documents, llm)

    async def _evidence(self, asked: Asked, source: EvidenceSource) -> Concentration | None:
        """Where the evidence lies, for questions that one document's pack could answer."""
        if asked.route in ("rag", "agent") or kind_of(asked.question) not in ("fact", "page"):
            return None
        try:
            return concentration(await source.search(asked.question, asked.options.top_k))
        except RetrievalError:
            return None  # the answer's own search tells what is wrong
