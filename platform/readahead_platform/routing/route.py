"""Which way a question is answered, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from readahead_agents.question_kind import asks_for_analysis, asks_for_summary, compared_sides
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


def choose_route(
    requested: RequestedRoute, question: str, pack: PackOffer = NO_PACK, cag_max_tokens: int = 0
) -> RouteChosen:
    """An explicit route is honoured; `auto` takes the agent where one search cannot answer, and else the pack where it
    is ready and small.

    Args:
        cag_max_tokens: Tokens up to which `auto` prefers the pack to a search: small models read long texts badly.

    Raises:
        ApiError: 400 for `cag` where there is no pack to answer from.
    """
    match requested:
        case "cag" if not pack.is_ready:
            message = f"The route 'cag' answers from a pack. {pack.why_not} Until then use auto, rag or agent."
            raise ApiError(400, message, param="readahead.route", code="pack_unavailable")
        case "cag":
            return RouteChosen("cag", f"The request asked for it.{_delta(pack)}")
        case "rag" | "agent":
            return RouteChosen(requested, "The request asked for it.")
        case "auto":
            return _by_kind(question, pack, cag_max_tokens)


def _by_kind(question: str, pack: PackOffer, cag_max_tokens: int) -> RouteChosen:
    if compared_sides(question) is not None:
        return RouteChosen("agent", "The question compares two things, and each needs a search of its own.")
    if asks_for_analysis(question):
        return RouteChosen("agent", "The question asks for an analysis of what a search finds.")
    if asks_for_summary(question):
        return RouteChosen("agent", "The question asks for a summary of what a search finds.")
    if pack.is_ready and pack.delta_tokens > MAX_DELTA_TOKENS:
        return RouteChosen("rag", f"A search is faster for now.{_delta(pack)}")
    if pack.is_ready and pack.tokens <= cag_max_tokens:
        held = pack.tokens - pack.delta_tokens
        which = "All" if not pack.delta_tokens else f"{held} of the"
        why = f"{which} {pack.tokens} tokens of the documents are in the model's cache already.{_delta(pack)}"
        return RouteChosen("cag", why)
    if pack.is_ready:
        return RouteChosen(
            "rag", f"The pack's {pack.tokens} tokens are over the {cag_max_tokens} that auto reads whole."
        )
    return RouteChosen("rag", "One search can find what the question asks for.")


def _delta(pack: PackOffer) -> str:
    if not pack.delta_tokens:
        return ""
    return f" documents_changed: {pack.delta_tokens} tokens are read anew until the new pack is ready."
