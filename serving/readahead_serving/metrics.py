"""What /metrics shows. One registry for each app: nothing here is shared by two servers in one process."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from readahead_serving.engine.request import EngineStats, GenerationDelta

# A small model on a CPU answers its first token in 20 ms to 30 s and adds one every 10 to 500 ms.
_FIRST_TOKEN_S = (0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 12, 25, 60, 120)
_GAP_S = (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5, 1, 2, 5)
_WHOLE_S = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600)
_QUEUE_S = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60)


class ServingMetrics:
    """The server's metrics.

    Args:
        stats: The engine's state at the time of a scrape; None while there is no engine.
    """

    def __init__(self, stats: Callable[[], EngineStats | None]) -> None:
        self.registry = CollectorRegistry()
        self.first_token = self._histogram("time_to_first_token", "arrival to first output", _FIRST_TOKEN_S)
        self.gap = self._histogram("time_between_tokens", "gap between two outputs, all pooled", _GAP_S)
        self.whole = self._histogram("request", "arrival to last token", _WHOLE_S)
        self.queue = self._histogram("queue", "submission to the request's first step", _QUEUE_S)
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens of requests that began.")
        self.cached_tokens = self._counter("cached_tokens", "Prompt tokens whose keys and values were taken over.")
        self.completion_tokens = self._counter("completion_tokens", "Tokens sent to clients.")
        self.finished = self._counter("requests", "Completions by how they finished.", "finish_reason")
        self.rejected = self._counter("rejections", "Requests answered with an error, by its code.", "reason")
        self.embedded_texts = self._counter("embedded_texts", "Texts turned into vectors.")
        self.embedded_tokens = self._counter("embedded_tokens", "Tokens of texts turned into vectors.")
        self._gauge(stats, "requests_running", "Sequences in the running batch.", lambda s: s.running)
        self._gauge(stats, "requests_waiting", "Requests in the queue.", lambda s: s.waiting)
        self._gauge(stats, "kv_tokens_used", "Tokens held by the KV cache.", lambda s: s.kv_tokens_used)
        self._gauge(stats, "kv_tokens_total", "Tokens that the KV cache can hold.", lambda s: s.kv_tokens_total)
        self._gauge(
            stats, "prompt_tokens_computed", "Prompt tokens put through the model.", lambda s: s.prompt_tokens_computed
        )
        self._gauge(stats, "backlog_seconds", "Predicted seconds of prompts to compute.", lambda s: s.backlog_s)
        self._gauge(stats, "preempted", "Preemptions since the engine started.", lambda s: s.preempted)
        self._gauge(stats, "integrity_checks", "Proofs that no KV is lost.", lambda s: s.integrity_checks)
        self._gauge(stats, "engine_steps", "Steps of the engine since it started.", lambda s: s.steps)
        self._gauge(stats, "draft_tokens", "Tokens guessed ahead since the engine started.", lambda s: s.draft_tokens)
        self._gauge(
            stats, "draft_tokens_accepted", "Guesses that the model confirmed.", lambda s: s.draft_tokens_accepted
        )
        self._gauge(stats, "engine_aborted", "Requests aborted since the engine started.", lambda s: s.aborted)

    def watch(self, arrived: float) -> RequestWatch:
        """Follows one completion of a request that arrived at `arrived` (time.monotonic)."""
        return RequestWatch(self, arrived)

    def _histogram(self, name: str, of: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"readahead_{name}_seconds", f"Seconds: {of}.", buckets=buckets, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"readahead_{name}", text, labels, registry=self.registry)

    def _gauge(
        self, stats: Callable[[], EngineStats | None], name: str, text: str, read: Callable[[EngineStats], float]
    ) -> None:
        def value() -> float:
            current = stats()
            return 0.0 if current is None else float(read(current))

        Gauge(f"readahead_{name}", text, registry=self.registry).set_function(value)


class RequestWatch:
    """Times one completion from its deltas. Call `close` once, however it ended."""

    def __init__(self, metrics: ServingMetrics, arrived: float) -> None:
        self._metrics = metrics
        self._arrived = arrived
        self._last: float | None = None
        self._completion_tokens = 0
        self._reason = "abort"

    def delta(self, delta: GenerationDelta) -> None:
        """Takes in one delta as it is passed on."""
        if delta.text or delta.token_ids:
            self._tick(delta)
        self._completion_tokens = delta.usage.completion_tokens
        if delta.finish_reason is not None:
            self._reason = delta.finish_reason
            self._metrics.whole.observe(time.monotonic() - self._arrived)

    def failed(self) -> None:
        """Notes that the engine raised instead of finishing."""
        self._reason = "error" if self._last is not None else ""

    def close(self) -> None:
        """Counts the completion, unless it failed before its first token: then it counts as a rejection elsewhere."""
        self._metrics.completion_tokens.inc(self._completion_tokens)
        if self._reason:
            self._metrics.finished.labels(self._reason).inc()

    def _tick(self, delta: GenerationDelta) -> None:
        now = time.monotonic()
        if self._last is None:
            self._metrics.first_token.observe(now - self._arrived)
            self._metrics.prompt_tokens.inc(delta.usage.prompt_tokens)
            self._metrics.cached_tokens.inc(delta.usage.cached_tokens)
            if delta.queued_s is not None:
                self._metrics.queue.observe(delta.queued_s)
        else:
            self._metrics.gap.observe(now - self._last)
        self._last = now
