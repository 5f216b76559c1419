"""What a run tells while it goes on. Every surface (SSE, command line, web page) shows these and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from readahead_agents.approval import Decision
from readahead_agents.llm.base import TokenUsage
from readahead_agents.memory.recent import Remembered
from readahead_agents.planning.plan import Plan
from readahead_retrieval.types import Citation, Evidence


@dataclass(frozen=True, slots=True)
class QuestionRewritten:
    """A follow-up as it is answered: with what it leans on of the turns before it."""

    question: str
    by: Literal["rules", "model"]


@dataclass(frozen=True, slots=True)
class HistoryRead:
    """What the prompt holds of the conversation."""

    history: Remembered


@dataclass(frozen=True, slots=True)
class PlanMade:
    """What will be done, in which order."""

    plan: Plan
    missing: tuple[str, ...] = ()
    """One sentence for each configured tool server that is not there."""


@dataclass(frozen=True, slots=True)
class Replanned:
    """The plan did not come to what was needed; another `PlanMade` follows."""

    reason: str


@dataclass(frozen=True, slots=True)
class StepStarted:
    step: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A call as it is sent: references are filled with results. Long texts and lists are shown by their beginnings."""

    step: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ApprovalRequired:
    """A call waits for somebody's word, `timeout_s` seconds at most; other steps go on meanwhile."""

    step: str
    approval: str
    """By which the decision names it."""
    tool: str
    server: str
    """The external server that it belongs to."""
    arguments: dict[str, Any]
    """In full."""
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """What became of it. A call that was not approved fails its step."""

    step: str
    approval: str
    tool: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class EvidenceFound:
    evidence: tuple[Evidence, ...]
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the answer; the joined texts are the answer."""

    text: str
    quoted: bool = False
    """Not the model's words: quoted from the evidence, because no passage supports what the model wrote."""


@dataclass(frozen=True, slots=True)
class StepFinished:
    step: str
    tool: str
    ok: bool
    summary: str
    """The first words of its result, or the error's message."""
    elapsed_ms: float


@dataclass(frozen=True, slots=True)
class CitationFound:
    citation: Citation


@dataclass(frozen=True, slots=True)
class ToolQuote:
    """What a tool of another server told, and the sentence of the answer that stands on it."""

    tool: str
    quote: str
    answer_start: int
    answer_end: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The last event of a run that ends with an answer."""

    answer: str
    citations: tuple[Citation, ...]
    usage: TokenUsage
    finish_reason: Literal["stop", "length"]
    covered: bool
    """False when the documents do not answer the question and the answer says so."""
    quoted: bool = False
    """The answer ends with a quotation added by us, as no passage supports the model's own words."""
    notes: tuple[str, ...] = ()
    """What was left out or went wrong, one sentence each: turns and passages that did not fit, failed steps."""
    tool_quotes: tuple[ToolQuote, ...] = ()
    """Sentences that no document bears out, and a tool of another server does."""


AnswerEvent = QuestionRewritten | HistoryRead | EvidenceFound | Token | CitationFound | Answered
ApprovalEvent = ApprovalRequired | ApprovalDecided
RunEvent = PlanMade | Replanned | StepStarted | ApprovalEvent | ToolCalled | StepFinished | AnswerEvent
