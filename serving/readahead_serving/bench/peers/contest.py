"""Our server and others on the same machine, with the same loads by turns."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from readahead_serving.bench.own_server import OwnServer, launched, own_server
from readahead_serving.bench.peers.peer import Peer
from readahead_serving.bench.peers.workshop import Workshop
from readahead_serving.bench.runner import BenchOptions, measure
from readahead_serving.bench.workloads import WORKLOADS
from readahead_serving.errors import BenchFailed
from readahead_serving.settings import ServingSettings

OURS = "readahead"


@dataclass(frozen=True, slots=True)
class Round:
    """One workload at one level, run on one server after another."""

    workload: str
    users: int
    requests: int | None = None
    """By default the workload's own number."""
    prefix_tokens: int | None = None


ROUNDS = (
    Round("chat", 1),
    Round("chat", 16),
    Round("w1", 1, prefix_tokens=6000),
    Round("w1", 8, prefix_tokens=6000),
    Round("w1", 16, prefix_tokens=6000),
    Round("quote", 1),
)


@dataclass(slots=True)
class Standing:
    """Who takes part."""

    servers: dict[str, OwnServer]
    """By name, ours first."""
    absent: dict[str, str] = field(default_factory=dict)
    """By name, why others do not."""

    def leave_out_ended(self) -> None:
        """Peers that ended by themselves take no further part."""
        for name, server in list(self.servers.items()):
            if name != OURS and server.process.returncode is not None:
                del self.servers[name]
                self.absent[name] = f"ended during the comparison with code {server.process.returncode}"


@contextlib.asynccontextmanager
async def standing(
    peers: Sequence[Peer], settings: ServingSettings, model: Path, folder: Path, tell: Callable[[str], None]
) -> AsyncIterator[Standing]:
    """Starts our server and every peer that can be had; all of them are stopped at the end.

    Args:
        peers: The others.
        settings: Of our server.
        model: The GGUF file that all run.
        folder: Where peers are installed.
        tell: Takes a line about what is being done.

    Raises:
        BenchFailed: Our own server can't be started.
    """
    async with contextlib.AsyncExitStack() as stack:
        tell(f"{OURS}: starting")
        packs = stack.enter_context(tempfile.TemporaryDirectory(prefix="readahead-bench-"))
        ours = settings.model_copy(update={"packs_dir": Path(packs), "embedding_model": ""})
        present = Standing({OURS: await stack.enter_async_context(own_server(ours))})
        for peer in peers:

            def say(line: str, name: str = peer.name) -> None:
                tell(f"{name}: {line}")

            try:
                launch = await peer.prepare(Workshop(folder / peer.name, say), model)
                say("starting")
                present.servers[peer.name] = await stack.enter_async_context(launched(launch))
            except BenchFailed as reason:  # one that is not to be had is told, and the others still meet
                say(f"absent: {reason}")
                present.absent[peer.name] = str(reason)
        yield present


async def play(one: Round, present: Standing, settings: ServingSettings) -> dict[str, dict[str, Any]]:
    """One round: the metrics of each server by name.

    Raises:
        BenchFailed: A server doesn't answer at all.
    """
    present.leave_out_ended()
    (_, ours), *others = present.servers.items()
    options = BenchOptions(
        url=ours.url,
        concurrency=(one.users,),
        requests=one.requests,
        prefix_tokens=one.prefix_tokens,
        peers=tuple(server.url for _, server in others),
    )
    report = await measure(WORKLOADS[one.workload], options, settings)
    metrics = [report["metrics"], *(peer["metrics"] for peer in report.get("peers", ()))]
    return dict(zip(present.servers, metrics, strict=True))
