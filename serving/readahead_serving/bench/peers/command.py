"""`readahead bench peers`."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from readahead_serving.bench.hardware import describe_hardware
from readahead_serving.bench.output import print_json, print_tables
from readahead_serving.bench.peers.comparison import Played, as_table, compare
from readahead_serving.bench.peers.contest import ROUNDS, Round, play, standing
from readahead_serving.bench.peers.llama_cpp import LlamaCpp
from readahead_serving.bench.peers.peer import Peer
from readahead_serving.bench.peers.vllm import Vllm
from readahead_serving.bench.peers.workshop import default_folder
from readahead_serving.errors import BenchFailed
from readahead_serving.model.metadata import GGUF_SUFFIX
from readahead_serving.settings import ServingSettings

PEERS: tuple[Peer, ...] = (Vllm(), LlamaCpp())


@dataclass(frozen=True, slots=True)
class PeersOptions:
    """How the comparison is run."""

    folder: Path = field(default_factory=default_folder)
    """Where peers are installed and kept."""
    peers: Sequence[Peer] = PEERS
    rounds: Sequence[Round] = ROUNDS


def run_peers(options: PeersOptions, settings: ServingSettings, model: Path, *, as_json: bool) -> None:
    """Installs, starts and times every peer beside our own server, and prints one table or one JSON object.

    Args:
        options: How.
        settings: Of our server.
        model: The model's file, which has to be a GGUF file because all servers can be given its weights.
        as_json: Print JSON; what is being done is told on standard error either way.

    Raises:
        BenchFailed: The model is of another kind, or our own server can't be run.
    """
    if model.suffix != GGUF_SUFFIX:
        raise BenchFailed(f"{model} is no GGUF file, which all servers can run; choose one with serving.model.")
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    report = asyncio.run(compared(options, settings, model, lambda line: errors.print(line, markup=False)))
    if as_json:
        print_json(report)
        return
    absent = [f"{name}: absent. {reason}" for name, reason in report["absent"].items()]
    print_tables([as_table(report)], absent)


async def compared(
    options: PeersOptions, settings: ServingSettings, model: Path, tell: Callable[[str], None]
) -> dict[str, Any]:
    """The report of all rounds."""
    played: list[Played] = []
    async with standing(options.peers, settings, model, options.folder, tell) as present:
        servers = {name: {"start_s": server.start_s} for name, server in present.servers.items()}
        for one in options.rounds:
            tell(f"{one.workload}, {one.users} users")
            played.append((one, await play(one, present, settings)))
    return {
        "workload": "peers",
        "model": model.name,
        "hardware": describe_hardware(),
        "command": shlex.join(sys.argv),
        "servers": servers,
        "absent": present.absent,
        "rows": compare(played),
        "rounds": [{"workload": one.workload, "users": one.users, "metrics": metrics} for one, metrics in played],
    }
