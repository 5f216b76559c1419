"""quote: answers that repeat what stands in the prompt, as answers over documents do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Collection, Sequence

from readahead_serving.bench.client import LoadRequest
from readahead_serving.bench.load import closed_loop
from readahead_serving.bench.summary import Goal
from readahead_serving.bench.texts import prose
from readahead_serving.bench.workloads.base import Bench, Outcome, Workload

_RUN_WORDS = 8
"""So many words in a text's order count as quoted."""
_SHOWN_TOKENS = 60
_FEWEST_REQUESTS = 4


async def _run(bench: Bench) -> Outcome:
    count = bench.requests or max(_FEWEST_REQUESTS, bench.concurrency)
    texts = [prose(bench.prefix_tokens, seed=70_000 + number) for number in range(count)]
    requests = [_request(text, bench.max_tokens) for text in texts]
    began = time.monotonic()
    timings = await closed_loop(bench.client, requests, bench.concurrency)
    wall_s = time.monotonic() - began
    known = {run for text in texts for run in runs(text)}
    shares = [quoted_share(timing.text, known) for timing in timings if timing.error is None]
    extra = {"quoted_share": round(statistics.fmean(shares), 3) if shares else None}
    return Outcome(timings, wall_s, {"kind": "closed loop", "prefix_tokens": bench.prefix_tokens}, extra)


def _request(text: str, max_tokens: int) -> LoadRequest:
    """One turn shows how it is done, because small models told to repeat write something of their own."""
    shown = prose(_SHOWN_TOKENS, seed=69_999)
    messages = [
        {"role": "user", "content": f"Repeat word for word:\n{shown}"},
        {"role": "assistant", "content": shown},
        {"role": "user", "content": f"Repeat word for word:\n{text}"},
    ]
    return LoadRequest(messages, max_tokens)


def quoted_share(answer: str, known: Collection[tuple[str, ...]]) -> float:
    """The share of the answer's runs of eight words that are known."""
    found = runs(answer)
    return sum(run in known for run in found) / len(found) if found else 0.0


def runs(text: str) -> Sequence[tuple[str, ...]]:
    """Every eight words that follow each other."""
    words = text.split()
    return [tuple(words[at : at + _RUN_WORDS]) for at in range(len(words) - _RUN_WORDS + 1)]


QUOTING = Workload(
    name="quote",
    description="answers that quote: texts of 200 tokens to be repeated word for word, 96 tokens out, 1 at a time; "
    "throughput, which guessing ahead from the prompt raises, and the share of the answers that is quoted",
    run=_run,
    max_tokens=96,
    concurrency=(1,),
    goal=Goal(ttft_ms=1000, tbt_ms=150),
    prefix_tokens=200,
)
