"""Everything that a request may need, opened once and closed in the opposite order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from readahead_agents.conversations.store import ConversationStore
from readahead_agents.llm.base import LanguageModel
from readahead_agents.llm.openai import OpenAILanguageModel
from readahead_agents.runs.manager import RunManager
from readahead_platform.gateway.chat_service import ChatService
from readahead_platform.gateway.drain import Drain
from readahead_platform.gateway.llm_client import LlmClient, Patience
from readahead_platform.gateway.page_links import PageLinks
from readahead_platform.gateway.runs import open_runs
from readahead_platform.gateway.salts import salt_headers
from readahead_platform.gateway.tenants import TenantStore
from readahead_platform.observe.metrics import GatewayMetrics
from readahead_platform.packs.kb_packs import KbPacks
from readahead_platform.packs.opening import open_packs
from readahead_platform.packs.upkeep import PackUpkeep
from readahead_platform.settings import Settings
from readahead_platform.store.database import database_url, open_database
from readahead_retrieval.embedders.http import HttpEmbedder
from readahead_retrieval.library import Library
from readahead_retrieval.tokens import TokenizerCounter
from readahead_serving.settings import served_name


class LlmServer(Protocol):
    """Where the LLM server is, and how it fares; the supervisor, or a server started by somebody else."""

    @property
    def base_url(self) -> str:
        """Without /v1."""
        ...

    @property
    def api_key(self) -> str: ...

    @property
    def restarts(self) -> int: ...


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """The parts that routes and the web page work with."""

    settings: Settings
    library: Library
    tenants: TenantStore
    chat: ChatService
    llm: LlmClient
    llm_of: Callable[[str], LanguageModel]
    """The served model as a tenant asks it."""
    packs: KbPacks
    pack_upkeep: PackUpkeep
    llm_server: LlmServer
    runs: RunManager
    conversations: ConversationStore
    page_links: PageLinks
    metrics: GatewayMetrics
    drain: Drain


@asynccontextmanager
async def open_context(
    settings: Settings, llm_server: LlmServer, embedding_model: Path
) -> AsyncIterator[GatewayContext]:
    """Opens the database, the library and the clients of a ready LLM server.

    Args:
        embedding_model: The folder whose tokenizer.json measures chunks.
    """
    async with AsyncExitStack() as stack:
        database = await open_database(database_url(settings.home, settings.retrieval.database_url))
        stack.push_async_callback(database.close)
        api_root = f"{llm_server.base_url}/v1"
        embedder = await HttpEmbedder.connect(
            api_root, served_name(settings.serving.embedding_model), llm_server.api_key
        )
        stack.push_async_callback(embedder.close)
        counter = TokenizerCounter.from_file(embedding_model / "tokenizer.json")
        library = await Library.open(settings.retrieval, embedder, counter)
        stack.push_async_callback(library.close)
        gateway = settings.gateway
        patience = Patience(gateway.llm_idle_timeout_s, gateway.llm_answer_timeout_s)
        llm = LlmClient(llm_server.base_url, llm_server.api_key, patience)
        stack.push_async_callback(llm.close)
        language_model = OpenAILanguageModel(
            api_root,
            served_name(settings.serving.model),
            llm_server.api_key,
            idle_timeout_s=gateway.llm_idle_timeout_s,
        )
        stack.push_async_callback(language_model.aclose)

        def llm_of(tenant: str) -> LanguageModel:
            return language_model.with_headers(salt_headers(tenant))

        packs, pack_upkeep = open_packs(library, llm, database)
        runs = await open_runs(settings)
        stack.push_async_callback(runs.close)
        conversations = await ConversationStore.open(database.url)
        stack.push_async_callback(conversations.close)
        yield GatewayContext(
            settings=settings,
            library=library,
            tenants=TenantStore(database),
            chat=ChatService(
                library,
                llm_of,
                packs,
                settings.agents,
                score_floor=settings.retrieval.score_floor,
                cag_max_tokens=gateway.cag_max_tokens,
            ),
            llm=llm,
            llm_of=llm_of,
            packs=packs,
            pack_upkeep=pack_upkeep,
            llm_server=llm_server,
            runs=runs,
            conversations=conversations,
            page_links=PageLinks(gateway.page_link_s),
            metrics=GatewayMetrics(),
            drain=Drain(gateway.drain_s),
        )
