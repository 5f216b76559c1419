"""A shelf of packs over a stand-in for the model: the worker, the files and the policy are the real ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import torch

from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.pack_bytes import as_bytes
from readahead_serving.engine.kv.pack_manifest import BYTES_LAYOUT, PackIdentity
from readahead_serving.engine.kv.pack_policy import PackPolicy
from readahead_serving.engine.kv.pack_store import PackStore
from readahead_serving.engine.kv.pack_table import common_prefix
from readahead_serving.engine.messages import SequenceOutput
from readahead_serving.engine.pack_builds import BuildProgress
from readahead_serving.engine.pack_worker import FinishPack, PackWorker, as_built
from readahead_serving.engine.request import EngineStats
from readahead_serving.packs.estimate import PackSize
from readahead_serving.packs.pack_model import PackModel
from readahead_serving.packs.record import PackOptions, PackRecord, PackState
from readahead_serving.packs.shelf import PackShelf
from readahead_serving.packs.source import PackMessage, PackSource
from tests.serving.generation import until

LAYERS, HEADS, HEAD_DIM = 2, 1, 8
SIZE = PackSize(LAYERS, HEADS, HEAD_DIM, 4)
TOKEN_BYTES = SIZE.nbytes(1)
END = 256
"""The only special token: it ends each message."""
IDENTITY = PackIdentity(model="m", tokenizer="t", template="c", rope="r", dtype="float32")
WINDOW = 4096


class ByteEncoder:
    """One token a byte, and one at the end of each message."""

    special_ids = frozenset({END})

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return [token for m in messages for token in [*f"{m['role']}:{m['content']}".encode(), END]]

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id]) if token_id < END else b""


def kv_of(tokens: list[int]) -> PackKV:
    """KV that tells its tokens, so that a pack's content can be proved."""
    base = torch.tensor(tokens, dtype=torch.float32).view(1, -1, 1).expand(HEADS, -1, HEAD_DIM)
    keys = [(base + layer).contiguous() for layer in range(LAYERS)]
    values = [(base * 2 + layer).contiguous() for layer in range(LAYERS)]
    return PackKV(token_ids=tokens, keys=keys, values=values)


@dataclass
class StandInCore:
    """Builds at once, or when `hold` is lifted."""

    attached: dict[str, tuple[str, PackKV]] = field(default_factory=dict)
    built: dict[str, PackKV] = field(default_factory=dict)
    ends: list[SequenceOutput] = field(default_factory=list)
    hold: bool = False
    held: list[tuple[str, str, list[int]]] = field(default_factory=list)

    def build_pack(self, pack_id: str, salt: str, token_ids: list[int]) -> None:
        if self.hold:
            self.held.append((pack_id, salt, token_ids))
            return
        known = [kv.token_ids for of_salt, kv in self.attached.values() if of_salt == salt]
        cached = max((common_prefix(tokens, token_ids) for tokens in known), default=0)
        self.built[pack_id] = kv_of(token_ids)
        self.ends.append(SequenceOutput(request_id=pack_id, token_ids=[], finish_reason="length", cached_tokens=cached))

    def build_progress(self) -> list[BuildProgress]:
        return [BuildProgress(pack_id, 1, len(tokens)) for pack_id, _, tokens in self.held]

    def export_pack(self, pack_id: str) -> PackKV:
        return self.built.pop(pack_id)

    def attach_pack(self, pack_id: str, salt: str, kv: PackKV) -> None:
        assert pack_id not in self.attached
        self.attached[pack_id] = (salt, kv)

    def detach_pack(self, pack_id: str) -> bool:
        self.attached.pop(pack_id, None)
        return True

    def abort(self, request_id: str) -> None:
        self.held = [one for one in self.held if one[0] != request_id]
        self.ends.append(SequenceOutput(request_id=request_id, token_ids=[], finish_reason="abort"))


class StandInEngine:
    """An engine process without its process: the real worker turns in this event loop."""

    def __init__(self, shelf: PackShelf, finish: FinishPack = as_built) -> None:
        self.core = StandInCore()
        self._shelf = shelf
        self._worker = PackWorker(self.core, finish)
        self._task = asyncio.create_task(self._turn())
        shelf.connect(self._worker.handle)

    async def _turn(self) -> None:
        while True:
            ends, self.core.ends = self.core.ends, []
            assert self._worker.take_ends(ends) == []
            for event in self._worker.poll():
                self._shelf.on_event(event)
            await asyncio.sleep(0.001)

    async def die(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._shelf.disconnect()


@dataclass
class Bench:
    """A shelf, its engine and its folder."""

    shelf: PackShelf
    engine: StandInEngine
    root: Path

    async def ready(self, record: PackRecord) -> PackRecord:
        await until(lambda: record.state not in (PackState.BUILDING, PackState.STALE), f"{record} is built")
        return record

    async def built(self, text: str, salt: str = "", **options: object) -> PackRecord:
        chosen = PackOptions(**options)  # type: ignore[arg-type]
        return await self.ready(await self.shelf.create(salt, source(text), chosen))


def files(root: Path, pattern: str = "*") -> list[Path]:
    """What lies under a folder."""
    return list(root.rglob(pattern))


def source(text: str) -> PackSource:
    return PackSource(messages=(PackMessage("system", text),))


def question(record: PackRecord, text: str = "Why?") -> list[int]:
    return ByteEncoder().encode_chat([*record.source.rendered(), {"role": "user", "content": text}])


@contextlib.asynccontextmanager
async def shelf_at(
    root: Path,
    *,
    memory_tokens: int = 100_000,
    disk_bytes: int = 1 << 30,
    pin_share: float = 0.5,
    identity: Callable[[PackIdentity], PackIdentity] = lambda one: one,
    in_bytes: bool = False,
) -> AsyncIterator[Bench]:
    chosen = identity(IDENTITY)
    if in_bytes:
        chosen = msgspec.structs.replace(chosen, layout=BYTES_LAYOUT)
    size = PackSize(LAYERS, HEADS, HEAD_DIM, 1, is_bytes=True) if in_bytes else SIZE
    model = PackModel(chosen, ByteEncoder(), size, WINDOW, 512, lambda: _STATS)
    policy = PackPolicy(memory_tokens * TOKEN_BYTES, pin_share)
    shelf = PackShelf(model, PackStore(root, disk_bytes), policy)
    await shelf.start()
    engine = StandInEngine(shelf, as_bytes if in_bytes else as_built)
    try:
        yield Bench(shelf, engine, root)
    finally:
        await shelf.close()
        await engine.die()


_STATS = EngineStats(
    steps=0,
    running=0,
    waiting=0,
    kv_tokens_used=0,
    kv_tokens_total=0,
    prompt_tokens_computed=0,
    completion_tokens=0,
    aborted=0,
)
