"""What was asked and answered in one browser tab. Knows nothing of the page: events come in, a state stands."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from readahead_agents.approval import Decision
from readahead_agents.events import (
    Answered,
    ApprovalDecided,
    ApprovalRequired,
    CitationFound,
    PlanMade,
    QuestionRewritten,
    Replanned,
    StepFinished,
    StepStarted,
    Token,
)
from readahead_agents.llm.base import Message
from readahead_platform.gateway.chat_service import ChatEvent
from readahead_platform.routing.route import RequestedRoute, RouteChosen
from readahead_retrieval.types import Citation

MAX_TURNS = 40
"""Turns kept of one conversation; older ones are forgotten."""
MAX_CONVERSATIONS = 20
"""Knowledge bases whose conversation a tab keeps."""
HISTORY_TURNS = 4
"""Earlier turns sent along with a question."""


@dataclass(slots=True)
class Step:
    """One step of an agent's run."""

    id: str
    tool: str
    about: str = ""
    """The question that it answers."""
    ok: bool | None = None
    """None while it runs."""
    summary: str = ""
    elapsed_ms: float = 0.0


@dataclass(slots=True)
class Approval:
    """A call of another server's tool that waits, or waited, for somebody's word."""

    asked: ApprovalRequired
    decision: Decision | None = None
    """None while it waits."""
    decided_here: bool = False
    """The word was given on this page."""


@dataclass(slots=True)
class Turn:
    """A question, and its answer as far as it has come."""

    question: str
    run: str = ""
    """The kept run that answers it; empty where its route asks for no word."""
    answer: str = ""
    route: RouteChosen | None = None
    asked_as: str = ""
    """The question as it was searched for, where it leans on an earlier one."""
    remarks: tuple[str, ...] = ()
    """How the plan came about, one sentence each."""
    notes: tuple[str, ...] = ()
    """What was left out of the answer, or is to be known of it."""
    steps: list[Step] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)
    citations: tuple[Citation, ...] = ()
    covered: bool = True
    cut_short: bool = False
    """The answer ended because it reached its length."""
    done: bool = False
    stopped: bool = False
    error: str = ""

    def apply(self, event: ChatEvent) -> None:
        """Takes one event of the run in."""
        match event:
            case RouteChosen():
                self.route = event
            case QuestionRewritten(question=question):
                self.asked_as = question
            case Token(text=text):
                self.answer += text
            case CitationFound(citation=citation):
                self.citations += (citation,)
            case Answered():
                self.answer, self.citations, self.covered = event.answer, event.citations, event.covered
                self.notes = event.notes
                self.cut_short = event.finish_reason == "length"
            case _:
                self._apply_to_steps(event)

    def _apply_to_steps(self, event: ChatEvent) -> None:
        match event:
            case PlanMade(plan, missing):
                self.remarks += tuple(line for line in (plan.reasoning, *plan.repairs, *missing) if line)
            case Replanned(reason=reason):
                self.remarks += (f"A new plan, because: {reason}",)
            case StepStarted(step=step, tool=tool, arguments=arguments):
                self.steps.append(Step(step, tool, str(arguments.get("question") or "")))
            case StepFinished():
                self._finish_step(event)
            case ApprovalRequired():
                self.approvals.append(Approval(event))
            case ApprovalDecided():
                self._decide(event)
            case _:
                pass  # evidence is shown by the citations drawn from it

    def _finish_step(self, event: StepFinished) -> None:
        for step in self.steps:
            if step.id == event.step and step.ok is None:
                step.ok, step.summary, step.elapsed_ms = event.ok, event.summary, event.elapsed_ms

    def _decide(self, event: ApprovalDecided) -> None:
        for approval in self.approvals:
            if approval.asked.approval == event.approval:
                approval.decision = event.decision

    @property
    def unsupported(self) -> bool:
        """An answer of the model that no passage was found for."""
        return self.done and self.covered and bool(self.answer) and not self.citations and not self.stopped


@dataclass(slots=True)
class Tab:
    """The conversations of one browser tab; gone when the tab is."""

    kb_id: str = ""
    route: RequestedRoute = "auto"
    pages: int = 0
    """Pages that show it: two for a moment when it is reloaded, none when it is closed."""
    running: asyncio.Task[None] | None = None
    """The answer under way. It belongs to the tab, not to a page, so that a reload does not end it."""
    running_kb: str = ""
    _turns: OrderedDict[str, deque[Turn]] = field(default_factory=OrderedDict)

    def turns(self, kb_id: str) -> deque[Turn]:
        """The conversation with one knowledge base, oldest turn first."""
        turns = self._turns.setdefault(kb_id, deque(maxlen=MAX_TURNS))
        self._turns.move_to_end(kb_id)
        while len(self._turns) > MAX_CONVERSATIONS:
            self._turns.popitem(last=False)
        return turns

    def run(self, task: asyncio.Task[None], kb_id: str, turn: Turn) -> None:
        """Takes note of an answer that has begun, until it ends, however it ends."""
        self.running, self.running_kb = task, kb_id

        def end(ended: asyncio.Task[None]) -> None:
            turn.done = True
            if self.running is ended:
                self.running, self.running_kb = None, ""

        task.add_done_callback(end)

    def stop(self) -> None:
        """Ends the answer under way, down to the engine."""
        if self.running is not None:
            self.running.cancel()

    def forget(self, kb_id: str) -> None:
        self._turns.pop(kb_id, None)


def messages_for(turns: Sequence[Turn], question: str) -> list[Message]:
    """The last answered turns, then the question."""
    answered = [turn for turn in turns if turn.done and turn.answer and not turn.error][-HISTORY_TURNS:]
    pairs = [(Message("user", turn.question), Message("assistant", turn.answer)) for turn in answered]
    return [message for pair in pairs for message in pair] + [Message("user", question)]
