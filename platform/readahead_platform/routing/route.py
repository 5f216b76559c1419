"""Which way a question is answered, and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from readahead_agents.planning.question_kind import asks_for_analysis, asks_for_summary, compared_sides
from readahead_platform.errors import ApiError

Route = Literal["rag", "agent", "cag"]
RequestedRoute = Literal["auto", "rag", "agent", "cag"]


@dataclass(frozen=True, slots=True)
class PackOffer:
    """What the knowledge base's pack could do for a question."""

    is_ready: bool
    """Whether questions on all documents as they are now can be asked at once."""
    tokens: int = 0
    delta_tokens: int = 0
    """Those of them that each question computes anew, because documents have changed and the new pack isn't built."""
    why_not: str = ""
    """One sentence for people, where it is not ready."""
    state: str = "none"
    """As /v1/packs has it: resident, on_disk, …"""
    build_s: float | None = None
    """Seconds that the model took to read it, where that was measured."""
    nbytes: int = 0
    """Bytes on disk."""

    @property
    def load_s(self) -> float | None:
        """Seconds until it can be read; None where that is not known."""
        return 0.0 if self.state != "on_disk" else self.nbytes / LOAD_BYTES_PER_S if self.nbytes else None


@dataclass(frozen=True, slots=True)
class Room:
    """What the model may read for one answer, in tokens; the window is None where nobody could tell it."""

    window: int | None = None
    answer: int = 0
    search: int = 0
    """That the passages of a search may take."""


LOAD_BYTES_PER_S = 300e6
"""Of a pack on disk into memory: what a plain SSD gives at least."""
QUESTION_TOKENS = 100
"""Around a question and its frame."""
MAX_SHARE = 4
"""A pack takes a quarter of the window at most where `auto` reads it whole: models read worse the fuller it is."""


MAX_DELTA_TOKENS = 1500
"""Tokens that `auto` lets a question compute beside a pack whose documents have changed: about what the passages of a
search would cost it."""
NO_PACK = PackOffer(is_ready=False, why_not="It has no pack; `readahead kb pack` builds one.")


@dataclass(frozen=True, slots=True)
class RouteChosen:
    """The first event of every answer over a knowledge base."""

    chosen: Route
    why: str
    """One sentence for people."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the choice was made from."""
    estimate_s: float | None = None
    """Seconds until the first word, by what reading the pack was measured to take; None where nothing was measured."""


def choose_route(
    requested: RequestedRoute, question: str, pack: PackOffer = NO_PACK, cag_max_tokens: int = 0, room: Room = Room()
) -> RouteChosen:
    """An explicit route is honoured; `auto` takes the agent where one search cannot answer, and else the pack where it
    is ready and small.

    Args:
        cag_max_tokens: Tokens up to which `auto` prefers the pack to a search: small models read long texts badly.

    Raises:
        ApiError: 400 for `cag` where there is no pack to answer from.
    """
    chosen = _chosen(requested, question, pack, cag_max_tokens, room)
    facts = {
        "question_kind": _kind(question),
        "pack_state": pack.state,
        "pack_tokens": pack.tokens or None,
        "pack_delta_tokens": pack.delta_tokens,
        "pack_load_s": pack.load_s if pack.is_ready else None,
        "window_tokens": room.window,
        "search_tokens": room.search,
        "cag_limit_tokens": _limit(cag_max_tokens, room),
    }
    return replace(chosen, facts=facts, estimate_s=_estimate(chosen.chosen, pack, room))


def _chosen(requested: RequestedRoute, question: str, pack: PackOffer, cag_max_tokens: int, room: Room) -> RouteChosen:
    match requested:
        case "cag" if not pack.is_ready:
            message = f"The route 'cag' answers from a pack. {pack.why_not} Until then use auto, rag or agent."
            raise ApiError(400, message, param="readahead.route", code="pack_unavailable")
        case "cag":
            return RouteChosen("cag", f"The request asked for it.{_delta(pack)}")
        case "rag" | "agent":
            return RouteChosen(requested, "The request asked for it.")
        case "auto":
            return _by_facts(question, pack, cag_max_tokens, room)


_AGENT_BECAUSE = {
    "comparison": "The question compares two things, and each needs a search of its own.",
    "analysis": "The question asks for an analysis of what a search finds.",
    "summary": "The question asks for a summary of what a search finds.",
}


def _kind(question: str) -> str:
    if compared_sides(question) is not None:
        return "comparison"
    if asks_for_analysis(question):
        return "analysis"
    return "summary" if asks_for_summary(question) else "fact"


def _by_facts(question: str, pack: PackOffer, cag_max_tokens: int, room: Room) -> RouteChosen:
    if why_agent := _AGENT_BECAUSE.get(_kind(question)):
        return RouteChosen("agent", why_agent)
    limit = _limit(cag_max_tokens, room)
    if pack.is_ready and pack.delta_tokens > MAX_DELTA_TOKENS:
        return RouteChosen("rag", f"A search is faster for now.{_delta(pack)}")
    if pack.is_ready and (slow := _slower_to_load(pack)):
        return RouteChosen("rag", slow)
    if pack.is_ready and pack.tokens <= limit:
        held = pack.tokens - pack.delta_tokens
        which = "All" if not pack.delta_tokens else f"{held} of the"
        where = "on disk, and quicker loaded than read" if pack.state == "on_disk" else "in the model's cache already"
        why = f"{which} {pack.tokens} tokens of the documents are {where}.{_delta(pack)}"
        return RouteChosen("cag", why)
    if pack.is_ready:
        return RouteChosen("rag", f"The pack's {pack.tokens} tokens are over the {limit} that auto reads whole.")
    return RouteChosen("rag", "One search can find what the question asks for.")


def _delta(pack: PackOffer) -> str:
    if not pack.delta_tokens:
        return ""
    return f" documents_changed: {pack.delta_tokens} tokens are read anew until the new pack is ready."


def _limit(cag_max_tokens: int, room: Room) -> int:
    """Tokens of a pack that `auto` reads whole: as set, and what the window bears."""
    if room.window is None:
        return cag_max_tokens
    left = room.window - room.answer - QUESTION_TOKENS
    return max(0, min(cag_max_tokens, room.window // MAX_SHARE, left))


def _slower_to_load(pack: PackOffer) -> str:
    """Why the pack is not loaded for one question; empty where it is there, or quicker loaded than read."""
    if pack.load_s is None or pack.build_s is None or pack.load_s <= pack.build_s:
        return ""
    return f"The pack is on disk, and loading it takes longer ({pack.load_s:.1f} s) than reading it anew."


def _estimate(route: Route, pack: PackOffer, room: Room) -> float | None:
    """By the seconds a token took when the pack was built; an agent has a plan and a step ahead of its answer."""
    if pack.build_s is None or not pack.tokens:
        return None
    per_token = pack.build_s / pack.tokens
    if route == "cag":
        return round((pack.load_s or 0.0) + (pack.delta_tokens + QUESTION_TOKENS) * per_token, 2)
    prompts = 3 if route == "agent" else 1
    return round(prompts * (room.search + QUESTION_TOKENS) * per_token, 2)
