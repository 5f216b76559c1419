"""From timings to the figures that every workload has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from readahead_serving.bench.client import Timing
from readahead_serving.bench.spread import percentile, spread


@dataclass(frozen=True, slots=True)
class Goal:
    """What a request must keep to count as good."""

    ttft_ms: float
    tbt_ms: float
    """The request's own 95th percentile of gaps must stay below it."""


def summarise(timings: Sequence[Timing], wall_s: float, goal: Goal) -> dict[str, Any]:
    """The metrics of one level of load. Failed requests are counted; only finished ones have latencies.

    `tbt_ms` pools the gaps of all requests; `max_tbt_ms` takes each request's longest, for a mean hides stalls.

    Args:
        timings: Of all requests sent.
        wall_s: From the first one sent to the last one back.
        goal: What makes a request a good one.
    """
    failed = [timing for timing in timings if timing.error is not None]
    finished = [timing for timing in timings if timing.error is None and not timing.was_cancelled]
    prompt_tokens = sum(timing.prompt_tokens for timing in finished)
    cached_tokens = sum(timing.cached_tokens for timing in finished)
    completion_tokens = sum(timing.completion_tokens for timing in finished)
    return {
        "ttft_ms": spread([timing.text_at[0] for timing in finished]),
        "tbt_ms": spread([gap for timing in finished for gap in timing.gaps]),
        "max_tbt_ms": spread([max(timing.gaps) for timing in finished if timing.gaps]),
        "e2e_ms": spread([timing.done_at for timing in finished]),
        "output_tokens_per_s": round(completion_tokens / wall_s, 2),
        "requests_per_s": round(len(finished) / wall_s, 3),
        "goodput_rps": round(sum(_is_good(timing, goal) for timing in finished) / wall_s, 3),
        "prompt_tokens": prompt_tokens,
        "cached_tokens": cached_tokens,
        "computed_tokens": prompt_tokens - cached_tokens,
        "completion_tokens": completion_tokens,
        "requests": len(timings),
        "errors": len(failed),
        "error_messages": dict(Counter(timing.error for timing in failed)),
        "wall_s": round(wall_s, 3),
    }


def _is_good(timing: Timing, goal: Goal) -> bool:
    gaps = sorted(timing.gaps)
    return timing.text_at[0] * 1000 <= goal.ttft_ms and (not gaps or percentile(gaps, 95) * 1000 <= goal.tbt_ms)
