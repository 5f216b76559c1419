"""The seam to whatever answers questions on a knowledge base, for servers that offer it as a tool."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from readahead_agents.events import RunEvent

AskedRoute = Literal["auto", "rag", "agent", "cag"]


@dataclass(frozen=True, slots=True)
class RouteTaken:
    """Which way the question is answered, one sentence why, and what that was decided by."""

    route: str
    why: str
    estimate_s: float | None = None
    """Seconds until the first word; None where nothing was measured that it could be told from."""
    facts: Mapping[str, str | int | float | None] = field(default_factory=dict)


class Asker(Protocol):
    """Answers questions of any tenant."""

    def ask(
        self, tenant: str, kb: str, question: str, route: AskedRoute
    ) -> AsyncGenerator[RouteTaken | RunEvent, None]:
        """Yields `RouteTaken`, then the run's events to `Answered`. Closing the generator ends all work for it.

        Raises:
            AgentError: The question cannot be answered; the message names the mend.
            RetrievalError: As the library raises them.
        """
        ...
