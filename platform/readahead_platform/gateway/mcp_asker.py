"""Questions that come in over MCP, answered as those of every other surface."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from readahead_agents.errors import AgentError
from readahead_agents.events import RunEvent
from readahead_agents.llm.base import Message
from readahead_agents.mcp.asking import AskedRoute, RouteTaken
from readahead_platform.errors import ApiError
from readahead_platform.gateway.chat_service import ChatService
from readahead_platform.routing.route import RouteChosen


@dataclass(frozen=True, slots=True)
class ChatAsker:
    """An `Asker` over the chat service."""

    chat: ChatService

    async def ask(
        self, tenant: str, kb: str, question: str, route: AskedRoute
    ) -> AsyncGenerator[RouteTaken | RunEvent, None]:
        try:
            async with aclosing(self.chat.ask(tenant, kb, [Message("user", question)], route)) as events:
                async for event in events:
                    yield _taken(event) if isinstance(event, RouteChosen) else event
        except ApiError as error:
            raise AgentError(error.message) from error


def _taken(route: RouteChosen) -> RouteTaken:
    return RouteTaken(route.chosen, route.why, route.estimate_s, route.facts)
