"""Which way a question is answered, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from readahead_agents.question_kind import asks_for_analysis, asks_for_summary, compared_sides
from readahead_platform.errors import ApiError

Route = Literal["rag", "agent"]
RequestedRoute = Literal["auto", "rag", "agent", "cag"]


@dataclass(frozen=True, slots=True)
class RouteChosen:
    """The first event of every answer over a knowledge base."""

    chosen: Route
    why: str
    """One sentence for people."""


def choose_route(requested: RequestedRoute, question: str) -> RouteChosen:
    """An explicit route is honoured; `auto` takes the agent where one search cannot answer.

    Raises:
        ApiError: 400 for `cag`: there is no pack to answer from.
    """
    match requested:
        case "cag":
            message = "The route 'cag' needs a knowledge pack, and packs are not available yet; use auto, rag or agent."
            raise ApiError(400, message, param="readahead.route", code="pack_unavailable")
        case "rag" | "agent":
            return RouteChosen(requested, "The request asked for it.")
        case "auto":
            return _by_kind(question)


def _by_kind(question: str) -> RouteChosen:
    if compared_sides(question) is not None:
        return RouteChosen("agent", "The question compares two things, and each needs a search of its own.")
    if asks_for_analysis(question):
        return RouteChosen("agent", "The question asks for an analysis of what a search finds.")
    if asks_for_summary(question):
        return RouteChosen("agent", "The question asks for a summary of what a search finds.")
    return RouteChosen("rag", "One search can find what the question asks for.")
