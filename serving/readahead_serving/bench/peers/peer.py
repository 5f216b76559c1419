"""What another server must offer to be compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from readahead_serving.bench.own_server import Launch
from readahead_serving.bench.peers.workshop import Workshop


class Peer(Protocol):
    """Another LLM server. It is installed once and started as its makers recommend for this machine, so that what is
    compared is the best it gives: all cores, its prefix cache on, the same weights and window as ours."""

    @property
    def name(self) -> str:
        """Stands in tables and names its folder."""
        ...

    async def prepare(self, workshop: Workshop, model: Path) -> Launch:
        """Installs what is missing and says how to start it on a free port of the loopback address.

        Args:
            workshop: Its own folder.
            model: The GGUF file that our server runs.

        Raises:
            PeerAbsent: It can't run on this machine.
        """
        ...
