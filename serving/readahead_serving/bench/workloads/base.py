"""What a workload is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from readahead_serving.bench.client import LoadClient, Timing
from readahead_serving.bench.probe import ServerProbe
from readahead_serving.bench.summary import Goal
from readahead_serving.settings import ServingSettings


@dataclass(frozen=True, slots=True)
class Bench:
    """One server under load, and how much of it."""

    client: LoadClient
    probe: ServerProbe
    settings: ServingSettings
    """Of the server where it is our own; else ours by default, which a workload reads nothing from but sizes."""
    concurrency: int
    requests: int | None
    """How many, where the caller says so."""
    max_tokens: int
    prefix_tokens: int
    goal: Goal


@dataclass(slots=True)
class Outcome:
    """What one level of a workload gave."""

    timings: list[Timing]
    wall_s: float
    load: dict[str, Any] = field(default_factory=dict)
    """How the load was made."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Metrics of this workload alone."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of load, at one or more levels of concurrency."""

    name: str
    description: str
    """The load and its metrics, for `bench list`."""
    run: Callable[[Bench], Awaitable[Outcome]]
    max_tokens: int
    concurrency: Sequence[int]
    goal: Goal
    prefix_tokens: int = 0
    """Tokens of the shared texts, about."""
    server: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a server of our own that this load is made for."""
    needs_own_server: bool = False
