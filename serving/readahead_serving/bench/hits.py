"""How much of a load a cache without bounds could take over, and why a server took over less."""

from __future__ import annotations

from collections.abc import Sequence

from readahead_serving.bench.client import LoadRequest, Timing

_MET = 0.95


def shareable(requests: Sequence[LoadRequest], known: Sequence[LoadRequest] = ()) -> list[float]:
    """For each request the share of its prompt, in characters, that an earlier one began with.

    Args:
        requests: In the order in which they are sent.
        known: Sent before all of them.
    """
    earlier = [_text(request) for request in known]
    shares = []
    for text in map(_text, requests):
        longest = max((_common(text, other) for other in earlier), default=0)
        shares.append(longest / len(text))
        earlier.append(text)
    return shares


def hit_report(timings: Sequence[Timing], shares: Sequence[float]) -> dict[str, object]:
    """Cached tokens that were possible, those that came, and why they differ. The first is estimated by characters."""
    pairs = [pair for pair in zip(timings, shares, strict=True) if pair[0].error is None and not pair[0].was_cancelled]
    most = round(sum(timing.prompt_tokens * share for timing, share in pairs))
    achieved = sum(timing.cached_tokens for timing, _ in pairs)
    return {"theoretical_cached_tokens": most, "cached_tokens": achieved, "cache_note": _note(most, achieved)}


def _note(most: int, achieved: int) -> str:
    if achieved >= _MET * most:
        return "all that could be shared was"
    if achieved == 0:
        return "no cached tokens: all evicted or asked for too soon, or the server has no prefix cache or does not tell"
    return "some shared text was computed again: evicted, not yet computed when it was asked for, or cut at a block"


def _text(request: LoadRequest) -> str:
    return "\0".join(f"{message['role']}\0{message['content']}" for message in request.messages)


def _common(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
