"""The seam to people: calls of tools that may change something wait for somebody's word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits for approval."""

    id: str
    tool: str
    server: str
    """The external server that it belongs to."""
    arguments: Mapping[str, Any]
    """In full: whoever approves approves these."""


class Decision(StrEnum):
    """What somebody said, or that nobody did."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"


class Approver(Protocol):
    """Whoever decides for one run."""

    async def decide(self, call: PendingCall, timeout_s: float) -> Decision:
        """Waits for the decision, at most `timeout_s` seconds."""
        ...
