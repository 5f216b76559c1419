"""The engine process: `python -m readahead_serving.engine.process`.

Its settings come as one line of JSON on standard input, which then stays open: when it closes, the parent is gone
(however it went), and so is the engine.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, Protocol

import msgspec
import torch
import zmq

from readahead_serving.engine.core import EngineCore
from readahead_serving.engine.executor import Executor
from readahead_serving.engine.freed_memory import give_back_freed_memory
from readahead_serving.engine.grammar import GrammarCompiler
from readahead_serving.engine.kernel_attention import choose_attention
from readahead_serving.engine.kv.cache import KVCache
from readahead_serving.engine.kv.pack_bytes import as_bytes
from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.kv.prefix_tree import PrefixTree
from readahead_serving.engine.kv.storage import KVStorage, blocks_in_budget
from readahead_serving.engine.messages import Command, EngineConfig, EngineFailed, EngineLoaded, Event, StepOutputs
from readahead_serving.engine.pack_builds import PackBuilds
from readahead_serving.engine.pack_worker import FinishPack, PackWorker, as_built
from readahead_serving.engine.request import AbortRequest, EngineStats, GenerationRequest
from readahead_serving.engine.scheduler.loop import Scheduler
from readahead_serving.engine.speculate import Speculation
from readahead_serving.engine.warm_up import warm_up
from readahead_serving.errors import ModelLoadError
from readahead_serving.kernels.opening import open_kernels
from readahead_serving.model.config import ModelConfig
from readahead_serving.model.linear import choose_forms
from readahead_serving.model.loader import load_model
from readahead_serving.model.metadata import load_tokenizer

WRITE_POLL_MS = 20
"""How often an idle engine looks whether a pack has been written."""
GRAMMAR_POLL_MS = 2
"""How often an engine with nothing else to do looks whether a grammar has been compiled."""
STATS_INTERVAL_S = 0.05
"""State is sent at most this often while steps go on."""

log = logging.getLogger(__name__)


class Channel:
    """The engine's two sockets."""

    def __init__(self, config: EngineConfig) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._commands = context.socket(zmq.PULL)
        self._commands.connect(config.commands)
        self._outputs = context.socket(zmq.PUSH)
        self._outputs.linger = 1000  # milliseconds that the last words may take
        self._outputs.connect(config.outputs)
        self._decoder = msgspec.msgpack.Decoder(Command)
        self._encoder = msgspec.msgpack.Encoder()

    def receive(self, wait_ms: int | None) -> list[Command]:
        """All commands that have come; the first is waited for `wait_ms` milliseconds, or with None for ever."""
        commands: list[Command] = []
        while self._commands.poll(wait_ms):
            commands.append(self._decoder.decode(self._commands.recv()))
            wait_ms = 0
        return commands

    def send(self, event: Event) -> None:
        self._outputs.send(self._encoder.encode(event))


def build_core(config: EngineConfig) -> tuple[EngineCore, EngineLoaded]:
    """Loads the model and sets up the KV cache.

    Raises:
        ModelLoadError: The model's files are unusable or damaged, or the KV budget holds nothing.
    """
    path, dtype = Path(config.model_path), getattr(torch, config.dtype)
    opened = open_kernels(config.kernels, Path(config.kernels_dir))
    log.info("kernels: %s", opened.state)
    model = load_model(path, dtype, choose_forms(dtype, config.weights, opened.kernels), opened.kernels)
    shape: dict[str, Any] = {
        "num_layers": model.config.num_layers,
        "num_kv_heads": model.config.num_kv_heads,
        "head_dim": model.config.head_dim,
        "dtype": dtype,
    }
    num_blocks = blocks_in_budget(config.kv_cache_bytes, **shape)
    pool = BlockPool(num_blocks)
    domain = f"{path}|{config.dtype}".encode()  # the tree lives no longer than this process and its one model
    scheduler = Scheduler(
        KVCache(pool, PrefixTree(pool, domain)),
        max_running=config.max_running,
        prefill_chunk_tokens=config.prefill_chunk_tokens,
        tbt_target_s=config.tbt_target_ms / 1000,
        tenant_share=config.tenant_share,
    )
    storage = KVStorage(num_blocks=num_blocks, **shape)
    attention = choose_attention(opened.kernels, model.config)
    executor = Executor(model.decoder, storage, attention)
    grammar, eos_ids = _grammar_compiler(path, model.config)
    warm_up_steps = warm_up(model.decoder, attention, config.model_path)
    give_back_freed_memory()  # of what the model was converted from
    speculation = Speculation(config.speculative_tokens, config.speculation_max_running)
    core = EngineCore(
        executor, pool, scheduler, grammar.compile, eos_ids, speculation, builds=PackBuilds(executor.lay_out)
    )
    loaded = EngineLoaded(
        vocab_size=model.config.vocab_size,
        max_positions=model.config.max_positions,
        kv_tokens_total=pool.tokens_total,
        warm_up_steps=warm_up_steps,
    )
    return core, loaded


def _grammar_compiler(path: Path, config: ModelConfig) -> tuple[GrammarCompiler, list[int]]:
    tokenizer = load_tokenizer(path)
    eos_ids = sorted(tokenizer.eos_ids)
    return GrammarCompiler(tokenizer.to_json(), config.vocab_size, eos_ids), eos_ids


class Worker:
    """Feeds the core from the channel and the channel from the core, for ever."""

    def __init__(self, core: EngineCore, channel: Channel, finish_pack: FinishPack) -> None:
        self._core = core
        self._channel = channel
        self._packs = PackWorker(core, finish_pack)
        self._stats_sent_at = 0.0

    def run(self) -> NoReturn:
        while True:
            self.turn()

    def turn(self) -> None:
        """One turn: what has come, one step, what it gave."""
        for command in self._channel.receive(self._wait_ms()):
            self._handle(command)
        had_work = self._core.has_work
        self._core.step()
        if had_work and not self._core.has_work:
            self._core.step()  # proves at once that the work that has ended left no KV behind
        outputs = self._packs.take_ends(self._core.take_outputs())
        packs, stats = self._packs.poll(), self._due_stats()
        if outputs or packs or stats is not None:
            self._channel.send(StepOutputs(outputs=outputs, stats=stats, packs=packs))

    def _wait_ms(self) -> int | None:
        if self._core.can_step:
            return 0
        if self._core.is_compiling:
            return GRAMMAR_POLL_MS
        return WRITE_POLL_MS if self._packs.is_writing else None

    def _handle(self, command: Command) -> None:
        match command:
            case AbortRequest():
                self._core.abort(command.request_id)
            case GenerationRequest():
                self._core.add(command)
            case _:
                self._packs.handle(command)

    def _due_stats(self) -> EngineStats | None:
        now = time.monotonic()
        if self._core.has_work and now - self._stats_sent_at < STATS_INTERVAL_S:
            return None
        self._stats_sent_at = now
        return self._core.stats()


def _end_with_parent() -> None:
    """Waits for standard input to close, which happens when the parent dies, and ends the process."""
    # os.read on the raw descriptor: a buffered reader's lock would be held at interpreter exit
    while os.read(0, 4096):
        pass
    os._exit(0)


def _read_config() -> EngineConfig:
    line = bytearray()
    while not line.endswith(b"\n"):
        line += os.read(0, 1) or b"\n"
    return msgspec.json.decode(bytes(line), type=EngineConfig)


def _cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Loop(Protocol):
    """What a process does once its model is loaded."""

    def run(self) -> NoReturn: ...


def run_process(load: Callable[[EngineConfig, Channel], tuple[Loop, EngineLoaded]]) -> int:
    """Runs an engine until its parent goes; returns 1 if it can't start.

    Args:
        load: Loads the model; a `ModelLoadError` is told to the parent.
    """
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Ctrl-C reaches the whole process group: the parent decides when the engine ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config = _read_config()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(config.threads or _cores())
    channel = Channel(config)
    try:
        loop, loaded = load(config, channel)
    except ModelLoadError as error:
        channel.send(EngineFailed(message=str(error)))
        return 1
    channel.send(loaded)
    return loop.run()


def _load(config: EngineConfig, channel: Channel) -> tuple[Worker, EngineLoaded]:
    core, loaded = build_core(config)
    return Worker(core, channel, as_bytes if config.pack_kv == "int8" else as_built), loaded


if __name__ == "__main__":
    sys.exit(run_process(_load))
