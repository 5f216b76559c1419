"""Whether a request is taken at all: decided at once, by the seconds it would wait."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from readahead_serving.backends.seen_prefixes import BLOCK_TOKENS, SeenPrefixes
from readahead_serving.engine.request import EngineStats, GenerationRequest
from readahead_serving.engine.scheduler.cost import StepLoad
from readahead_serving.errors import DeadlineExceeded, EngineBusy, RequestRefused
from readahead_serving.settings import ServingSettings

_SMOOTHING = 0.1
"""Weight of the newest completion in the mean length."""


def most_in_flight(settings: ServingSettings) -> int:
    """Requests of one tenant, running or waiting, that are taken at most."""
    most = settings.max_running + settings.max_waiting
    return max(1, int(settings.tenant_share * most))


@dataclass(slots=True)
class _Ticket:
    request: GenerationRequest
    number: int
    """How many requests were sent before it."""
    prefill_s: float
    """Predicted seconds that its prompt adds to the steps it shares with others, cache hits taken off."""
    has_started: bool = False


class AdmissionControl:
    """Counts the requests in flight and predicts how long one more would wait.

    The engine reports how much work it has, cache hits taken off, and what work costs; what it has not seen yet is
    added from here. So a refusal needs no answer from the engine, which may be in the middle of a long step.

    Args:
        settings: The server's limits.
        kv_tokens: Tokens that the engine's cache holds.
    """

    def __init__(self, settings: ServingSettings, kv_tokens: int) -> None:
        self._settings = settings
        self._tickets: dict[str, _Ticket] = {}
        self._seen = SeenPrefixes(max(1, kv_tokens // BLOCK_TOKENS))
        self._sent = 0
        self._mean_completion = 0.0

    def admit(self, request: GenerationRequest, stats: EngineStats, in_pack: int = 0) -> None:
        """Takes a request in; `end` must follow once it has ended in the engine.

        Args:
            request: Checked, with an id that is in use by no other.
            stats: The engine's latest.
            in_pack: Leading tokens of its prompt that a pack in memory holds.

        Raises:
            EngineBusy: Too many requests are in flight, the tenant has its share, or the wait would be too long.
            RequestRefused: The same, but only because of its own call's other completions: no waiting would mend that.
            DeadlineExceeded: Its deadline would pass before its first token even in an empty queue.
        """
        wait_s = self.predicted_wait_s(stats)
        start, end = self._expected(request, in_pack), len(request.prompt_tokens)
        self._check_queue(wait_s)
        try:
            self._check_tenant(request.salt, wait_s)
            if stats.costs.is_measured:
                self._check_wait(wait_s)
        except EngineBusy as busy:
            if self._is_alone(request):
                raise _too_much(wait_s) from busy
            raise
        if stats.costs.is_measured:
            own_s = stats.costs.prefill_s(start, end, chunk_tokens=self._settings.prefill_chunk_tokens)
            _check_deadline(request.deadline, wait_s, own_s)
        self._tickets[request.request_id] = _Ticket(request, self._sent, stats.costs.chunk_s(start, end))
        self._sent += 1

    def started(self, request_id: str) -> None:
        """Notes a request's first output: its prompt is computed."""
        ticket = self._tickets[request_id]
        if not ticket.has_started:
            ticket.has_started = True
            self._seen.add(ticket.request.salt, ticket.request.prompt_tokens)

    def end(self, request_id: str, completion_tokens: int) -> None:
        """Notes that a request has ended in the engine."""
        del self._tickets[request_id]
        self._mean_completion += _SMOOTHING * (completion_tokens - self._mean_completion)

    def predicted_wait_s(self, stats: EngineStats) -> float:
        """Seconds until a request that came now would begin: the prompts before it, or a place in the batch."""
        unseen = (ticket.prefill_s for ticket in self._tickets.values() if ticket.number >= stats.received)
        return max(stats.backlog_s + sum(unseen), self._place_s(stats))

    def _place_s(self, stats: EngineStats) -> float:
        ahead = len(self._tickets) - self._settings.max_running + 1
        if ahead <= 0:
            return 0.0
        rows = self._settings.max_running
        step_s = stats.costs.seconds(StepLoad(rows, stats.kv_tokens_used, 0, 0))
        return ahead * self._mean_completion * step_s / rows

    def _expected(self, request: GenerationRequest, in_pack: int) -> int:
        """Leading tokens of the prompt that a pack or the cache should hold."""
        if request.sampling.prompt_logprobs:
            return 0
        held = max(in_pack, self._seen.length(request.salt, request.prompt_tokens))
        return min(held, len(request.prompt_tokens) - 1)

    def _is_alone(self, request: GenerationRequest) -> bool:
        """Whether nothing is in flight but other completions of the request's own call."""
        others = [ticket.request.group for ticket in self._tickets.values()]
        return bool(others) and request.group != "" and set(others) == {request.group}

    def _check_queue(self, wait_s: float) -> None:
        most = self._settings.max_running + self._settings.max_waiting
        if len(self._tickets) >= most:
            raise EngineBusy(
                f"{most} requests are running or waiting, as many as may: try again later.", _retry(wait_s)
            )

    def _check_tenant(self, salt: str, wait_s: float) -> None:
        share = self._settings.tenant_share
        if share >= 1:
            return
        own = [ticket for ticket in self._tickets.values() if ticket.request.salt == salt]
        most = most_in_flight(self._settings)
        queued_s = _sum_prefill(ticket for ticket in own if not ticket.has_started)
        if len(own) >= most or queued_s > share * self._settings.max_queue_seconds:
            raise EngineBusy(
                "Your requests already fill your share of the queue: let some finish first.", _retry(wait_s)
            )

    def _check_wait(self, wait_s: float) -> None:
        most = self._settings.max_queue_seconds
        if wait_s > most:
            raise EngineBusy(
                f"The predicted wait is {wait_s:.1f} s, over the {most:g} s that may be queued: try again later.",
                _retry(wait_s),
            )


def _sum_prefill(tickets: Iterable[_Ticket]) -> float:
    return sum(ticket.prefill_s for ticket in tickets)


def _too_much(wait_s: float) -> RequestRefused:
    return RequestRefused(
        f"The prompts of this request, more than {wait_s:.1f} s of reading, are more than may be queued at once: "
        "send fewer prompts or choices in one request.",
        code="too_many_completions",
    )


def _check_deadline(deadline: float | None, wait_s: float, prefill_s: float) -> None:
    left = None if deadline is None else deadline - time.time()
    if left is None or left <= 0 or wait_s + prefill_s <= left:  # one that has passed already is the engine's to end
        return
    if prefill_s > left:
        raise DeadlineExceeded(
            f"The prompt alone takes {prefill_s:.1f} s to read, more than the {left:.1f} s that the request may take: "
            "give it more time or a shorter prompt."
        )
    raise EngineBusy(
        f"The predicted wait of {wait_s:.1f} s leaves too little of the {left:.1f} s that the request may take: "
        "try again later.",
        _retry(wait_s),
    )


def _retry(wait_s: float) -> float:
    return min(600.0, max(0.05, wait_s))
