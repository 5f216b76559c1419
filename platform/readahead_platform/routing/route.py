"""Which way a question is answered, and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from readahead_agents.named_places import page_asked
from readahead_agents.planning.question_kind import asks_for_analysis, asks_for_summary, compared_sides
from readahead_platform.errors import ApiError
from readahead_platform.packs.offer import NO_PACK, PackOffer
from readahead_platform.routing.facts import KbFacts, Room

Route = Literal["rag", "agent", "cag"]
RequestedRoute = Literal["auto", "rag", "agent", "cag"]
QUESTION_TOKENS = 100
"""Around a question and its frame."""
MAX_SHARE = 4
"""A pack takes a quarter of the window at most where `auto` reads it whole: models read worse the fuller it is."""
MAX_DELTA_TOKENS = 1500
"""Tokens that `auto` lets a question compute beside a pack whose documents have changed: about what the passages of a
search would cost it."""
MIN_CONCENTRATION = 0.7
"""Share of what a search finds that must be in one document for its pack to answer alone."""

_NO_ROOM, _NOTHING = Room(), KbFacts()


@dataclass(frozen=True, slots=True)
class RouteChosen:
    """The first event of every answer over a knowledge base."""

    chosen: Route
    why: str
    """One sentence for people."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the choice was made from."""
    estimate_s: float | None = None
    """Seconds until the first word; None where nothing was measured that it could be told from."""
    estimate_from: Literal["pack", "engine"] | None = None
    """What was measured: how long this pack took to be read, or how fast the LLM server reads."""
    pack_document: str | None = None
    """On route cag, the id of the document whose pack is read; None where it is the whole knowledge base's."""


def choose_route(
    requested: RequestedRoute,
    question: str,
    pack: PackOffer = NO_PACK,
    cag_max_tokens: int = 0,
    room: Room = _NO_ROOM,
    kb: KbFacts = _NOTHING,
) -> RouteChosen:
    """An explicit route is honoured; `auto` takes the agent where one search cannot answer, and else the pack where it
    is ready and small, or the one of the document that the evidence lies in.

    Args:
        cag_max_tokens: Tokens up to which `auto` prefers the pack to a search: small models read long texts badly.

    Raises:
        ApiError: 400 for `cag` where there is no pack to answer from.
    """
    chosen = _chosen(requested, question, pack, cag_max_tokens, room, kb)
    read = kb.document_pack if chosen.pack_document else pack
    estimate_s, source = _estimate(chosen.chosen, read, room)
    facts = _facts(question, pack, cag_max_tokens, room, kb)
    return replace(chosen, facts=facts, estimate_s=estimate_s, estimate_from=source)


def _facts(question: str, pack: PackOffer, cag_max_tokens: int, room: Room, kb: KbFacts) -> dict[str, Any]:
    found = kb.evidence
    return {
        "question_kind": kind_of(question),
        "kb_tokens": pack.tokens if pack.is_ready else kb.tokens,
        "documents_pending": kb.pending,
        "documents_changed": kb.changed,
        "pack_state": pack.state,
        "pack_tokens": pack.tokens or None,
        "pack_delta_tokens": pack.delta_tokens,
        "pack_load_s": pack.load_s if pack.is_ready else None,
        "evidence_document": found.document if found else None,
        "evidence_share": round(found.share, 3) if found else None,
        "document_pack_state": kb.document_pack.state,
        "document_pack_tokens": kb.document_pack.tokens or None,
        "window_tokens": room.window,
        "search_tokens": room.search,
        "cag_limit_tokens": limit_of(cag_max_tokens, room),
    }


def _chosen(
    requested: RequestedRoute, question: str, pack: PackOffer, cag_max_tokens: int, room: Room, kb: KbFacts
) -> RouteChosen:
    match requested:
        case "cag" if pack.is_ready:
            return RouteChosen("cag", f"The request asked for it.{_delta(pack)}")
        case "cag" if kb.document_pack.is_ready and kb.evidence:
            why = f"The request asked for it, and of the packs there are, that of {kb.evidence.document} tells most."
            return RouteChosen("cag", why, pack_document=kb.evidence.document_id)
        case "cag":
            message = f"The route 'cag' answers from a pack. {pack.why_not} Until then use auto, rag or agent."
            raise ApiError(400, message, param="readahead.route", code="pack_unavailable")
        case "rag" | "agent":
            return RouteChosen(requested, "The request asked for it.")
        case "auto":
            chosen = _by_facts(question, pack, limit_of(cag_max_tokens, room), kb)
            return replace(chosen, why=f"{chosen.why}{_pending(kb)}")


_AGENT_BECAUSE = {
    "comparison": "The question compares two things, and each needs a search of its own.",
    "analysis": "The question asks for an analysis of what a search finds.",
    "summary": "The question asks for a summary of what a search finds.",
}


def kind_of(question: str) -> str:
    """comparison, analysis, summary, page or fact, by the question's words."""
    if compared_sides(question) is not None:
        return "comparison"
    if asks_for_analysis(question):
        return "analysis"
    if asks_for_summary(question):
        return "summary"
    return "fact" if page_asked(question) is None else "page"


def _by_facts(question: str, pack: PackOffer, limit: int, kb: KbFacts) -> RouteChosen:
    if why_agent := _AGENT_BECAUSE.get(kind_of(question)):
        return RouteChosen("agent", why_agent)
    if kind_of(question) == "page":
        return RouteChosen("rag", "The question names a page, and a search reads just that one.")
    against = _against(pack, limit)
    if pack.is_ready and not against:
        held = pack.tokens - pack.delta_tokens
        which = "All" if not pack.delta_tokens else f"{held} of the"
        why = f"{which} {pack.tokens} tokens of the documents are {_where(pack)}.{_delta(pack)}"
        return RouteChosen("cag", why)
    if on_document := _on_document(limit, kb):
        return on_document
    if against:
        return RouteChosen("rag", against)
    if kb.tokens is not None and kb.tokens > limit:
        return RouteChosen(
            "rag", f"The documents have about {kb.tokens} tokens, over the {limit} that auto reads whole."
        )
    return RouteChosen("rag", "One search can find what the question asks for.")


def _on_document(limit: int, kb: KbFacts) -> RouteChosen | None:
    """The pack of the one document that the evidence lies in, where it is ready and small."""
    found, pack = kb.evidence, kb.document_pack
    if found is None or found.share < MIN_CONCENTRATION or not pack.is_ready or _against(pack, limit):
        return None
    lies = f"{found.share:.0%} of what a search finds lies in {found.document}"
    why = f"{lies}, whose {pack.tokens} tokens are {_where(pack)}."
    return RouteChosen("cag", why, pack_document=found.document_id)


def _against(pack: PackOffer, limit: int) -> str:
    """Why a ready pack is not read whole; empty where it may be, or where there is none."""
    if not pack.is_ready:
        return ""
    if pack.delta_tokens > MAX_DELTA_TOKENS:
        return f"A search is faster for now.{_delta(pack)}"
    if pack.tokens > limit:
        return f"The pack's {pack.tokens} tokens are over the {limit} that auto reads whole."
    if pack.load_s is None or pack.build_s is None or pack.load_s <= pack.build_s:
        return ""
    return f"The pack is on disk, and loading it takes longer ({pack.load_s:.1f} s) than reading it anew."


def _where(pack: PackOffer) -> str:
    return "on disk, and quicker loaded than read" if pack.state == "on_disk" else "in the model's cache already"


def _delta(pack: PackOffer) -> str:
    if not pack.delta_tokens:
        return ""
    return f" documents_changed: {pack.delta_tokens} tokens are read anew until the new pack is ready."


def _pending(kb: KbFacts) -> str:
    if not kb.pending:
        return ""
    count = "1 document is" if kb.pending == 1 else f"{kb.pending} documents are"
    return f" {count} still being read, and not in the answer yet."


def limit_of(cag_max_tokens: int, room: Room) -> int:
    """Tokens of a pack that `auto` reads whole: as set, and what the window bears."""
    if room.window is None:
        return cag_max_tokens
    left = room.window - room.answer - QUESTION_TOKENS
    return max(0, min(cag_max_tokens, room.window // MAX_SHARE, left))


def _estimate(route: Route, pack: PackOffer, room: Room) -> tuple[float | None, Literal["pack", "engine"] | None]:
    """By the seconds a token took when the pack was built, else by those that the LLM server has measured; an agent
    has a plan and a step ahead of its answer."""
    source: Literal["pack", "engine"] = "engine"
    read_s = room.read_s
    if pack.build_s is not None and pack.tokens:
        source, read_s = "pack", pack.build_s / pack.tokens
    if read_s is None:
        return None, None
    if route == "cag":
        return round((pack.load_s or 0.0) + (pack.delta_tokens + QUESTION_TOKENS) * read_s, 2), source
    prompts = 3 if route == "agent" else 1
    return round(prompts * (room.search + QUESTION_TOKENS) * read_s, 2), source
