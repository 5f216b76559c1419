"""Collects a run's events into the `readahead` field of its answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from readahead_agents.events import (
    Answered,
    ApprovalDecided,
    ApprovalRequired,
    CitationFound,
    EvidenceFound,
    HistoryRead,
    PlanMade,
    QuestionRewritten,
    Replanned,
    StepFinished,
    StepStarted,
    Token,
    ToolCalled,
)
from readahead_agents.llm.base import TokenUsage
from readahead_platform.api.lines import box_numbers
from readahead_platform.gateway.chat_service import ChatEvent
from readahead_platform.routing.route import RouteChosen
from readahead_retrieval.types import Citation, Evidence

_EVENT_NAMES: dict[type[ChatEvent], str] = {
    RouteChosen: "route",
    QuestionRewritten: "question_rewritten",
    HistoryRead: "history",
    PlanMade: "plan",
    Replanned: "replanned",
    StepStarted: "step_started",
    ApprovalRequired: "approval_required",
    ApprovalDecided: "approval_decided",
    ToolCalled: "tool_call",
    EvidenceFound: "evidence",
    StepFinished: "step_finished",
    Token: "token",
    CitationFound: "citation",
    Answered: "answer",
}
PageUrl = Callable[[Citation], str]


class AnswerLog:
    """Watches one answer come into being; `answered` is set by its last event."""

    def __init__(self, page_url: PageUrl, clock: Callable[[], float] = time.monotonic) -> None:
        self._page_url = page_url
        self._clock = clock
        self._started = clock()
        self._timings_ms: dict[str, float] = {}
        self._conversation: dict[str, Any] = {}
        self._plans: list[PlanMade] = []
        self._replanned: list[str] = []
        self._started_steps: dict[str, StepStarted] = {}
        self._finished_steps: list[StepFinished] = []
        self.route: RouteChosen | None = None
        self.answered: Answered | None = None

    def observe(self, event: ChatEvent) -> None:
        match event:
            case RouteChosen():
                self.route = event
            case QuestionRewritten() | HistoryRead():
                self._conversation |= _of_conversation(event)
            case EvidenceFound():
                self._mark("search")
            case Token():
                self._mark("first_token")
            case PlanMade():
                self._plans.append(event)
            case Replanned():
                self._replanned.append(event.reason)
            case StepStarted():
                self._started_steps[event.step] = event
            case StepFinished():
                self._finished_steps.append(event)
            case Answered():
                self._mark("total")
                self.answered = event

    def _mark(self, name: str) -> None:
        self._timings_ms.setdefault(name, round((self._clock() - self._started) * 1000, 1))

    @property
    def first_token_s(self) -> float | None:
        milliseconds = self._timings_ms.get("first_token")
        return None if milliseconds is None else milliseconds / 1000

    def annotations(self) -> list[dict[str, Any]]:
        """OpenAI's citations; the link opens the page with the quote highlighted."""
        return [
            {
                "type": "url_citation",
                "url_citation": {
                    "title": f"{citation.document}, page {citation.page_label}",
                    "url": self._page_url(citation),
                    "start_index": citation.answer_start,
                    "end_index": citation.answer_end,
                },
            }
            for citation in self._done().citations
        ]

    def readahead(self) -> dict[str, Any]:
        """Our field, as docs/architecture.md has it."""
        answered, route = self._done(), self.route
        assert route is not None
        field: dict[str, Any] = {
            "citations": [{**citation_object(c), "url": self._page_url(c)} for c in answered.citations],
            "route": asdict(route),
            "covered": answered.covered,
            "quoted": answered.quoted,
            "tool_quotes": [asdict(quote) for quote in answered.tool_quotes],
            "notes": list(answered.notes),
            "timings_ms": self._timings_ms,
            "cost": cost_object(answered.usage, self._timings_ms["total"] / 1000),
        }
        if self._conversation:
            field["conversation"] = self._conversation
        if self._plans:
            field["run"] = {
                "steps": [self._step(step) for step in self._finished_steps],
                "reasoning": self._plans[-1].plan.reasoning,
                "repairs": [repair for made in self._plans for repair in made.plan.repairs],
                "replanned": self._replanned,
                "missing": list(self._plans[-1].missing),
            }
        return field

    def usage(self) -> dict[str, Any]:
        return usage_object(self._done().usage)

    def _step(self, finished: StepFinished) -> dict[str, Any]:
        started = self._started_steps.get(finished.step)
        return {
            "step": finished.step,
            "tool": finished.tool,
            "arguments": started.arguments if started else {},
            "ok": finished.ok,
            "summary": finished.summary,
            "elapsed_ms": finished.elapsed_ms,
        }

    def _done(self) -> Answered:
        assert self.answered is not None, "asked before the run ended"
        return self.answered


def event_object(event: ChatEvent) -> dict[str, Any]:
    """An event as JSON: its type, and its fields."""
    name = _EVENT_NAMES[type(event)]
    match event:
        case EvidenceFound():
            return {"type": name, "step": event.step, "evidence": [_evidence_object(e) for e in event.evidence]}
        case CitationFound():
            return {"type": name, "citation": citation_object(event.citation)}
        case Answered():
            citations = [citation_object(citation) for citation in event.citations]
            return {"type": name, **asdict(event), "citations": citations, "usage": usage_object(event.usage)}
        case PlanMade(plan, missing):
            return {"type": name, **plan.to_json(), "repairs": list(plan.repairs), "missing": list(missing)}
        case QuestionRewritten() | HistoryRead():
            return {"type": name, **_of_conversation(event)}
        case _:
            return {"type": name, **asdict(event)}


def _of_conversation(event: QuestionRewritten | HistoryRead) -> dict[str, Any]:
    if isinstance(event, HistoryRead):
        return asdict(event.history)
    return {"question": event.question, "rewritten_by": event.by}


def _evidence_object(evidence: Evidence) -> dict[str, Any]:
    return {
        "document": evidence.document,
        "document_id": evidence.document_id,
        "page": evidence.page,
        "page_label": evidence.page_label,
        "score": evidence.score,
        "similarity": evidence.similarity,
        "text": evidence.text,
    }


def citation_object(citation: Citation) -> dict[str, Any]:
    return {**asdict(citation), "boxes": [box_numbers(box) for box in citation.boxes]}


def cost_object(usage: TokenUsage, seconds: float) -> dict[str, Any]:
    """What OpenAI's usage does not tell of an answer."""
    return {
        "llm_calls": usage.calls,
        "computed_tokens": usage.computed_tokens,
        "seconds": round(seconds, 3),
    }


def usage_object(usage: TokenUsage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
