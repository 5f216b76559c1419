"""A gateway over a real library, database and sockets; only the two models are stand-ins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from openai import AsyncOpenAI

from readahead_agents.conversations.store import ConversationStore
from readahead_agents.llm.scripted import ScriptedLanguageModel
from readahead_agents.mcp.server_settings import McpServerSettings
from readahead_agents.settings import AgentSettings
from readahead_platform.gateway.app import create_app
from readahead_platform.gateway.chat_service import ChatService
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.drain import Drain
from readahead_platform.gateway.llm_client import LlmClient, Patience
from readahead_platform.gateway.page_links import PageLinks
from readahead_platform.gateway.runs import open_runs
from readahead_platform.gateway.tenants import TenantStore
from readahead_platform.observe.metrics import GatewayMetrics
from readahead_platform.packs.opening import open_packs
from readahead_platform.ports import bind_gateway
from readahead_platform.service import serving
from readahead_platform.settings import GatewaySettings, Settings
from readahead_platform.store.database import database_url, open_database
from readahead_platform.web.app import mount
from tests.platform.running import free_port
from tests.retrieval.library_parts import TermEmbedder, opened
from tests.retrieval.library_parts import settings as retrieval_settings


@dataclass(frozen=True)
class AbsentLlmServer:
    """Nothing listens there."""

    base_url: str
    api_key: str = "none"
    restarts: int = 0


@dataclass
class Gateway:
    """A running gateway and two tenants' keys."""

    url: str
    context: GatewayContext
    llm: ScriptedLanguageModel
    key: str
    """An admin's, of tenant acme."""
    other_key: str
    """Of tenant globex."""
    _stack: AsyncExitStack = field(repr=False)

    def sdk(self, key: str | None = None) -> AsyncOpenAI:
        """The official SDK; without retries, so that a test sees the first answer."""
        client = AsyncOpenAI(base_url=f"{self.url}/v1", api_key=key or self.key, max_retries=0)
        self._stack.push_async_callback(client.close)
        return client

    def http(self, key: str | None = None) -> httpx.AsyncClient:
        """Without a key where `key` is empty."""
        key = self.key if key is None else key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        client = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60)
        self._stack.push_async_callback(client.aclose)
        return client


@asynccontextmanager
async def running_gateway(
    home: Path,
    *,
    heartbeat_s: float = 10.0,
    llm: ScriptedLanguageModel | None = None,
    llm_url: str = "",
    mcp_servers: Sequence[McpServerSettings] = (),
    link_hosts: Sequence[str] = (),
    page: bool = False,
) -> AsyncIterator[Gateway]:
    """Args:
    page: The web page too, of which a process can have one.
    """
    settings = Settings(
        home=home,
        web=False,
        agents=AgentSettings(mcp_servers=tuple(mcp_servers), link_hosts=tuple(link_hosts)),
        retrieval=retrieval_settings(home),
        gateway=GatewaySettings(heartbeat_s=heartbeat_s, max_body_bytes=64 << 10),
    )
    llm = llm or ScriptedLanguageModel(["The answer stands in the passage."])
    llm_server = AbsentLlmServer(llm_url or f"http://127.0.0.1:{free_port()}")
    async with opened(home, TermEmbedder()) as library, AsyncExitStack() as stack:
        database = await open_database(database_url(home, ""))
        stack.push_async_callback(database.close)
        tenants = TenantStore(database)
        upstream = LlmClient(llm_server.base_url, llm_server.api_key, Patience(idle_s=30, answer_s=30))
        stack.push_async_callback(upstream.close)
        packs, pack_upkeep = open_packs(library, upstream, database)
        runs = await open_runs(settings)
        stack.push_async_callback(runs.close)
        conversations = await ConversationStore.open(database.url)
        stack.push_async_callback(conversations.close)
        context = GatewayContext(
            settings=settings,
            library=library,
            tenants=tenants,
            chat=ChatService(
                library,
                lambda _tenant: llm,
                packs,
                settings.agents,
                score_floor=settings.retrieval.score_floor,
                cag_max_tokens=settings.gateway.cag_max_tokens,
            ),
            llm=upstream,
            llm_of=lambda _tenant: llm,
            packs=packs,
            pack_upkeep=pack_upkeep,
            llm_server=llm_server,
            runs=runs,
            conversations=conversations,
            page_links=PageLinks(60),
            metrics=GatewayMetrics(),
            drain=Drain(0.2),
        )
        key, _ = await tenants.create_key("acme", admin=True)
        other_key, _ = await tenants.create_key("globex")
        port, app = free_port(), create_app(context)
        if page:
            mount(app, context)
        await stack.enter_async_context(serving(app, bind_gateway("127.0.0.1", port), context.drain))
        clients = await stack.enter_async_context(AsyncExitStack())
        yield Gateway(f"http://127.0.0.1:{port}", context, llm, key, other_key, clients)


async def add_document(gateway: Gateway, kb: str, path: Path, key: str | None = None) -> dict[str, str]:
    """Makes the knowledge base, uploads, adds and waits. Returns the ids of all three."""
    sdk = gateway.sdk(key)
    store = await sdk.vector_stores.create(name=kb)
    file = await sdk.files.create(file=path, purpose="assistants")
    async with asyncio.timeout(60):
        added = await sdk.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=50)
    assert added.status == "completed", added.last_error
    assert added.model_extra is not None
    return {"store": store.id, "file": file.id, "document": added.model_extra["document_id"]}
