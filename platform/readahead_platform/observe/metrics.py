"""The gateway's figures, in Prometheus' text format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_LAG_SECONDS = (0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 3, 10)


class GatewayMetrics:
    """One registry for one app, so that two apps in one process do not share counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.in_flight = Gauge(
            "readahead_gateway_requests_in_flight", "Requests being answered.", registry=self.registry
        )
        self._llm_restarts = Gauge(
            "readahead_llm_restarts", "Times the LLM server died and was started again.", registry=self.registry
        )
        self.first_token_seconds = Histogram(
            "readahead_first_token_seconds",
            "From a question on a knowledge base to the first token of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.loop_lag_seconds = Histogram(
            "readahead_gateway_event_loop_lag_seconds",
            "By how much the event loop wakes too late who asked for 50 ms of sleep: every request waits as long.",
            buckets=_LAG_SECONDS,
            registry=self.registry,
        )
        self._requests = Counter(
            "readahead_gateway_requests_total", "Answers given.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "readahead_gateway_request_seconds",
            "From a request to the last byte of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts one answer; `route` is the pattern, not the path, so that ids do not multiply series."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self, llm_restarts: int) -> bytes:
        """All figures as text; the supervisor's count is read at this moment."""
        self._llm_restarts.set(llm_restarts)
        return generate_latest(self.registry)
