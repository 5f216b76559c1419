"""Which way a question is answered, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from readahead_platform.errors import ApiError

Route = Literal["rag", "agent"]
RequestedRoute = Literal["auto", "rag", "agent", "cag"]

_SEVERAL_STEPS = re.compile(
    r"\b(compar\w*|contrast\w*|summar\w*|overview|analy[sz]\w*|evaluat\w*|pros and cons|difference\w* between)\b"
    r"|비교|요약|분석|차이",
    re.IGNORECASE,
)


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
    found = _SEVERAL_STEPS.search(question)
    if found:
        why = f"{found[0].lower()!r} asks for several steps: search, then work on what was found."
        return RouteChosen("agent", why)
    return RouteChosen("rag", "One search can answer a question that names what it looks for.")
