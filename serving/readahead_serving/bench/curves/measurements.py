"""The curves, each measured on one running server."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from readahead_serving.bench.client import LoadClient, LoadRequest, Timing, user_message
from readahead_serving.bench.curves.curve import Curve
from readahead_serving.bench.curves.memory import tree_bytes
from readahead_serving.bench.load import closed_loop
from readahead_serving.bench.probe import ServerProbe
from readahead_serving.bench.texts import prose
from readahead_serving.bench.workloads.kb_questions import about
from readahead_serving.errors import BenchFailed

_ANSWER_TOKENS = 32
_REPEATS = 3
_MB = 1e6


@dataclass(frozen=True, slots=True)
class Sizes:
    """Where the curves are measured. Tokens are about; what came is what stands in the points."""

    users: Sequence[int] = (1, 2, 4, 8, 16, 32, 64)
    long_pack: int = 6000
    new_tokens: Sequence[int] = (16, 64, 256, 512, 1024, 2048)
    fixed_pack: int = 3000
    pack_lengths: Sequence[int] = (500, 1000, 2000, 4000, 6000)
    distinct_packs: Sequence[int] = (1, 2, 4, 8, 16)
    small_pack: int = 500
    prompts: Sequence[int] = (250, 500, 1000, 2000, 4000, 7000)
    held_packs: int = 8


@dataclass(frozen=True, slots=True)
class Bench:
    """A running server and what is measured on it."""

    client: LoadClient
    probe: ServerProbe
    pid: int
    sizes: Sizes

    async def pack(self, tokens: int, seed: int) -> str:
        """Has a text kept as a pack."""
        text = prose(tokens, seed)
        if await self.probe.build_pack(text) is None:
            raise BenchFailed("This server has no packs, so there is nothing to measure.")
        return text

    async def answered(self, requests: Sequence[LoadRequest], users: int) -> tuple[list[Timing], float]:
        """Sends a load of which nothing may fail, and tells how long it took in seconds."""
        began = time.monotonic()
        timings = await closed_loop(self.client, requests, users)
        if failed := [timing.error for timing in timings if timing.error is not None]:
            raise BenchFailed(f"{len(failed)} of {len(timings)} requests failed: {failed[0]}.")
        return timings, time.monotonic() - began

    async def first_token(self, make: Callable[[int], LoadRequest]) -> tuple[float, int, int]:
        """Median first token in ms of a few like requests, one after another, with the last one's prompt tokens and
        those of them that were computed."""
        timings = [(await self.answered([make(number)], 1))[0][0] for number in range(_REPEATS)]
        last = timings[-1]
        first = statistics.median(timing.text_at[0] for timing in timings)
        return round(1000 * first, 1), last.prompt_tokens, last.prompt_tokens - last.cached_tokens

    def memory(self) -> float:
        """MB of the server and its engine."""
        return round((tree_bytes(self.pid) or 0) / _MB, 1)


async def users(bench: Bench) -> list[Curve]:
    """Throughput on one pack, and memory, as users become more."""
    text = await bench.pack(bench.sizes.long_pack, seed=1)
    rates, memory = [], []
    for level in bench.sizes.users:
        requests = [about(text, 1000 * level + number, _ANSWER_TOKENS) for number in range(max(8, level))]
        timings, wall_s = await bench.answered(requests, level)
        rates.append((float(level), round(sum(timing.completion_tokens for timing in timings) / wall_s, 1)))
        memory.append((float(level), bench.memory()))
    fixed = {"pack_tokens": bench.sizes.long_pack, "answer_tokens": _ANSWER_TOKENS}
    return [
        Curve("users", "Throughput on one pack", "users at a time", "output tokens/s", rates, fixed),
        Curve("memory-users", "Memory and users", "users at a time", "MB", memory, fixed),
    ]


async def new_tokens(bench: Bench) -> list[Curve]:
    """The first token on a pack as the question grows."""
    text = await bench.pack(bench.sizes.fixed_pack, seed=2)
    points = []
    for tokens in bench.sizes.new_tokens:

        def ask(number: int, tokens: int = tokens) -> LoadRequest:
            asked = {"role": "user", "content": prose(tokens, seed=10_000 * tokens + number)}
            return LoadRequest([{"role": "system", "content": text}, asked], 1)

        first, _, computed = await bench.first_token(ask)
        points.append((float(computed), first))
    fixed = {"pack_tokens": bench.sizes.fixed_pack}
    title = "First token on a pack, by new tokens"
    return [Curve("new-tokens", title, "prompt tokens computed", "first token, ms", points, fixed)]


async def pack_lengths(bench: Bench) -> list[Curve]:
    """The first token of a short question as the pack grows."""
    points = []
    for tokens in bench.sizes.pack_lengths:
        text = await bench.pack(tokens, seed=20_000 + tokens)

        def ask(number: int, text: str = text) -> LoadRequest:
            return about(text, 30_000 + number, 1)

        first, whole, computed = await bench.first_token(ask)
        points.append((float(whole - computed), first))
    title = "First token of a short question, by pack length"
    return [Curve("pack-length", title, "tokens from the pack", "first token, ms", points, {"new_tokens": "about 35"})]


async def distinct_packs(bench: Bench) -> list[Curve]:
    """Time between tokens of a full batch as it reads more packs."""
    readers = max(bench.sizes.distinct_packs)
    texts = [await bench.pack(bench.sizes.small_pack, seed=40_000 + number) for number in range(readers)]
    points = []
    for packs in bench.sizes.distinct_packs:
        requests = [about(texts[n % packs], 50_000 + 100 * packs + n, _ANSWER_TOKENS) for n in range(2 * readers)]
        timings, _ = await bench.answered(requests, readers)
        gaps = [gap for timing in timings for gap in timing.gaps]
        points.append((float(packs), round(1000 * statistics.median(gaps), 1)))
    fixed = {"users": readers, "pack_tokens": bench.sizes.small_pack}
    title = f"Step time of {readers} users, by packs they read"
    return [Curve("segments", title, "distinct packs", "time between tokens, ms", points, fixed)]


async def prompts(bench: Bench) -> list[Curve]:
    """Prefill without any cache, and memory, as prompts grow."""
    firsts, rates, memory = [], [], []
    for tokens in bench.sizes.prompts:

        def ask(number: int, tokens: int = tokens) -> LoadRequest:
            return LoadRequest(user_message(prose(tokens, seed=60_000 + 10 * tokens + number)), 1)

        first, _, computed = await bench.first_token(ask)
        firsts.append((float(computed), first))
        rates.append((float(computed), round(computed / first * 1000, 1)))
        memory.append((float(computed), bench.memory()))
    return [
        Curve("prefill", "First token of a cold prompt", "prompt tokens", "first token, ms", firsts, {}),
        Curve("prefill-rate", "Prefill speed, by length", "prompt tokens", "prompt tokens/s", rates, {}),
        Curve("memory-context", "Memory and the longest prompt so far", "prompt tokens", "MB", memory, {}),
    ]


async def held_packs(bench: Bench) -> list[Curve]:
    """Memory as packs become more."""
    points = [(0.0, bench.memory())]
    for number in range(1, bench.sizes.held_packs + 1):
        text = await bench.pack(2 * bench.sizes.small_pack, seed=80_000 + number)
        await bench.answered([about(text, 90_000 + number, 1)], 1)  # a pack is mapped, and takes memory once it is read
        points.append((float(number), bench.memory()))
    fixed = {"pack_tokens": 2 * bench.sizes.small_pack}
    return [Curve("memory-packs", "Memory and packs held", "packs", "MB", points, fixed)]


Measurement = Callable[[Bench], Awaitable[list[Curve]]]
MEASUREMENTS: tuple[Measurement, ...] = (held_packs, users, new_tokens, pack_lengths, distinct_packs, prompts)
"""In this order: memory with packs is measured before anything else has grown the process."""
