"""All packs of a server: made, kept, found, refused and deleted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from readahead_serving.engine.kv.pack_manifest import PAGE_BYTES, PackIdentity, PackRefused, verify
from readahead_serving.engine.kv.pack_policy import PackPolicy
from readahead_serving.engine.kv.pack_store import PackStore
from readahead_serving.engine.pack_messages import (
    AttachPack,
    BuildPack,
    DetachPack,
    PackCommand,
    PackEvent,
    PackProgress,
    PackReady,
)
from readahead_serving.engine.request import EngineStats
from readahead_serving.errors import ContextLengthExceeded, EngineBusy, PackNotFound
from readahead_serving.packs.adoption import adopt
from readahead_serving.packs.channel import ENGINE_LOST, PackChannel
from readahead_serving.packs.estimate import PackEstimate, estimate
from readahead_serving.packs.record import PackOptions, PackRecord, PackState, version_of
from readahead_serving.packs.source import ChatEncoder, PackDocument, PackSource, common_prefix, encode_pack

MAX_PACKS = 1000
MAX_QUEUED = 64
SWEEP_S = 1.0
"""Packs whose time is over are deleted at most this much later."""
NEAR_MISS_TOKENS = 16
"""A prompt that shares this many tokens with a pack was meant for it."""
MANIFEST_BYTES = 16 << 10
"""Room for what stands beside a pack's blocks on disk."""
TOUCH_S = 5.0
"""A pack's last use is written to disk at most this often."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PackModel:
    """What the shelf knows of the model."""

    identity: PackIdentity
    encoder: ChatEncoder
    token_bytes: int
    num_blocks: int
    """Of a pack on disk: each begins a page."""
    window: int
    """Tokens of prompt and completion together."""
    chunk_tokens: int
    stats: Callable[[], EngineStats]


@dataclass(slots=True)
class PackCounts:
    """Since start."""

    hits: int = 0
    misses: Counter[str] = field(default_factory=Counter)
    """By reason."""


class PackShelf:
    """Packs by tenant salt. Every method finds the packs of its salt only, as if no others existed.

    One pack is built at a time, in the order they were asked for, and none is ever answered from before its files have
    been verified. Use `start`, and `close` at the end.

    Args:
        model: Whose packs they are.
        store: Where they are kept.
        policy: Which stay in memory.
    """

    def __init__(self, model: PackModel, store: PackStore, policy: PackPolicy) -> None:
        self._model = model
        self._store = store
        self._policy = policy
        self._channel = PackChannel(self._progressed)
        self._records: dict[str, PackRecord] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._loading: dict[str, asyncio.Task[str]] = {}
        self._touched: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._connected = asyncio.Event()
        self.counts = PackCounts()
        self.disk_bytes = 0

    @property
    def memory_bytes(self) -> int:
        return self._policy.used_bytes

    @property
    def pinned_bytes(self) -> int:
        return self._policy.pinned_bytes()

    async def start(self) -> None:
        """Takes over what is on disk, and begins to build what is not, or not for this model."""
        self._records = await asyncio.to_thread(adopt, self._store, self._model.identity, self._model.token_bytes)
        for record in self._records.values():
            if not record.is_ready:
                self._enqueue(record)
        await self._measure_disk()
        self._tasks = [asyncio.create_task(self._build_all()), asyncio.create_task(self._sweep())]

    async def close(self) -> None:
        for task in [*self._tasks, *self._loading.values()]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._loading.values(), return_exceptions=True)

    # The engine process

    def connect(self, send: Callable[[PackCommand], None]) -> None:
        """An engine process is ready. Pinned packs are loaded at once, others when they are asked for."""
        self._channel.connect(send)
        self._connected.set()
        for record in self._records.values():
            if record.options.pin and record.state is PackState.ON_DISK:
                self._load_soon(record)

    def disconnect(self) -> None:
        """The engine process has died: what was in its memory only is built again."""
        self._connected.clear()
        self._channel.disconnect()
        for pack_id in self._policy.residents:
            self._policy.remove(pack_id)
        for record in self._records.values():
            record.pinned = False
            if record.state is PackState.RESIDENT:
                self._out_of_memory(record, ENGINE_LOST)

    def on_event(self, event: PackEvent) -> None:
        self._channel.on_event(event)

    # What callers ask for

    async def estimate(self, source: PackSource) -> PackEstimate:
        """What a pack would cost. Raises `RequestRefused` and `ContextLengthExceeded` as `create` does."""
        tokens = await asyncio.to_thread(encode_pack, source, self._model.encoder)
        return self._estimate(len(tokens.token_ids))

    async def create(self, salt: str, source: PackSource, options: PackOptions, extends: str = "") -> PackRecord:
        """Queues a pack to be built; the same texts again are the same pack, with the options given last.

        Raises:
            RequestRefused: It is empty, or the template takes no such messages.
            ContextLengthExceeded: It leaves no room for a question in the model's window.
            EngineBusy: Too many packs wait to be built, or exist.
        """
        tokens = await asyncio.to_thread(encode_pack, source, self._model.encoder)
        expected = self._estimate(len(tokens.token_ids))
        pack_id = source.pack_id(salt)
        record = self._records.get(pack_id)
        if record is not None and record.state is not PackState.FAILED:
            return await self.update(salt, pack_id, options)
        if len(self._records) >= MAX_PACKS or self._queue.qsize() >= MAX_QUEUED:
            raise EngineBusy("Too many packs exist or wait to be built: delete some, or try later.", 30.0)
        record = PackRecord(pack_id, salt, source, options, extends=extends, tokens=tokens, nbytes=expected.nbytes)
        self._records[pack_id] = record
        await self._save(record)
        self._enqueue(record)
        return record

    async def extend(
        self,
        salt: str,
        pack_id: str,
        documents: Sequence[PackDocument],
        metadata: dict[str, str] | None = None,
    ) -> PackRecord:
        """A new pack with documents at the end, which takes the old one's place once it is ready.

        Raises:
            PackNotFound: And what `create` raises.
        """
        old = self.get(salt, pack_id)
        options = old.options if metadata is None else msgspec.structs.replace(old.options, metadata=metadata)
        return await self.create(salt, old.source.extended(documents), options, extends=pack_id)

    def get(self, salt: str, pack_id: str) -> PackRecord:
        """Raises `PackNotFound` for what is not this salt's, or whose time is over."""
        record = self._records.get(pack_id)
        if record is None or record.salt != salt or _is_over(record):
            raise PackNotFound(pack_id)
        return record

    def list_all(self, salt: str) -> list[PackRecord]:
        """Oldest first."""
        found = [record for record in self._records.values() if record.salt == salt and not _is_over(record)]
        return sorted(found, key=lambda record: record.created_at)

    def everybodys(self) -> list[PackRecord]:
        """Of all salts, for metrics."""
        return list(self._records.values())

    async def update(self, salt: str, pack_id: str, options: PackOptions) -> PackRecord:
        """Changes name, time to live, pin and metadata; a pin that the share refuses is told in `pin_problem`."""
        record = self.get(salt, pack_id)
        record.options = options
        record.used_at = time.time()
        if not options.pin:
            self._policy.unpin(pack_id)
            record.pinned, record.pin_problem = False, ""
        elif record.state is PackState.ON_DISK:
            await self._load(record)
        self._try_pin(record)
        await self._save(record)
        return record

    async def delete(self, salt: str, pack_id: str) -> None:
        """Takes a pack out of memory and off the disk; it is gone from both when this returns.

        Raises:
            PackNotFound: There is no such pack.
        """
        record = self._records.get(pack_id)
        if record is None or record.salt != salt:
            raise PackNotFound(pack_id)
        await self._delete(record)

    async def prepare(self, salt: str, prompt: list[int]) -> PackRecord | None:
        """Finds the longest pack that a prompt begins with and sees to it that it is in memory.

        Returns:
            The pack that the prompt will read; None without one, and then `counts.misses` has the reason.
        """
        own = [record for record in self.list_all(salt) if record.tokens is not None]
        if not own:
            return None
        fitting = [record for record in own if _begins(prompt, record)]
        ready = max((r for r in fitting if r.is_ready), key=lambda r: r.num_tokens, default=None)
        if ready is None:
            for stale in (r for r in fitting if r.state is PackState.STALE and r.reason.startswith("evicted")):
                stale.state = PackState.BUILDING
                self._enqueue(stale)
            self.counts.misses[_miss_reason(prompt, own, fitting)] += 1
            return None
        self._policy.hit(ready.pack_id)
        problem = await self._load(ready) if ready.state is PackState.ON_DISK else ""
        if problem:
            self.counts.misses[problem.partition(":")[0]] += 1
            return None
        self.counts.hits += 1
        ready.hits += 1
        ready.used_at = time.time()
        await self._touch(ready)
        return ready

    # Building

    def _estimate(self, tokens: int) -> PackEstimate:
        if tokens >= self._model.window:
            raise ContextLengthExceeded(limit=self._model.window, prompt_tokens=tokens, completion_tokens=1)
        return estimate(tokens, self._model.token_bytes, self._model.stats().costs, self._model.chunk_tokens)

    def _enqueue(self, record: PackRecord) -> None:
        self._queue.put_nowait(record.pack_id)

    async def _build_all(self) -> None:
        while True:
            record = self._records.get(await self._queue.get())
            await self._connected.wait()
            if record is None or record.is_ready:
                continue
            try:
                await self._build(record)
            except Exception as error:  # the top of a loop: one pack's failure must not end the building of others
                log.exception("pack %s could not be built", record.pack_id)
                self._fail(record, f"internal: {error}")

    async def _build(self, record: PackRecord) -> None:
        record.state, record.tokens_done = PackState.BUILDING, 0
        if record.tokens is None:
            record.tokens = await asyncio.to_thread(encode_pack, record.source, self._model.encoder)
        token_ids = record.tokens.token_ids
        if len(token_ids) >= self._model.window:
            window = self._model.window
            self._fail(record, f"too_large: its {len(token_ids)} tokens leave no room in the window of {window}")
            return
        record.nbytes = len(token_ids) * self._model.token_bytes
        record.version = version_of(self._model.identity, token_ids)
        folder = await self._folder_for(record)
        base = await self._base_of(record)
        admitted = await self._admit(record)
        done = await self._channel.ask(
            BuildPack(
                pack_id=record.pack_id,
                salt=record.salt,
                token_ids=token_ids,
                identity=self._model.identity,
                documents=record.tokens.documents,
                folder=folder,
                base_pack=base.pack_id if base is not None else "",
                base_tokens=common_prefix(base.tokens.token_ids, token_ids) if base and base.tokens else 0,
                attach=admitted,
            )
        )
        await self._built(record, done)

    async def _folder_for(self, record: PackRecord) -> str:
        """Where the pack is to be written; empty, with the reason in the record, where it can't be."""
        record.disk_problem = ""
        if not await self._save(record):
            return ""
        await asyncio.to_thread(self._store.remove_versions, record.pack_id)
        if not await self._make_disk_room(record):
            record.disk_problem = f"disk_cap: {record.nbytes} bytes do not fit the cap of {self._store.cap_bytes} bytes"
            return ""
        return str(self._store.version_folder(record.pack_id, record.version))

    async def _make_disk_room(self, record: PackRecord) -> bool:
        """Drops the KV of packs that were used longest ago and are in no memory, until there is room."""
        needed = record.nbytes + 4 * record.num_tokens + self._model.num_blocks * PAGE_BYTES + MANIFEST_BYTES
        idle = (r for r in self._records.values() if r.state is PackState.ON_DISK and not r.options.pin)
        for victim in sorted(idle, key=lambda r: r.used_at):
            if await asyncio.to_thread(self._store.has_room, needed):
                return True
            await asyncio.to_thread(self._store.remove_versions, victim.pack_id)
            victim.on_disk = False
            victim.state, victim.reason = PackState.STALE, "evicted: the disk's cap needed its room"
        return await asyncio.to_thread(self._store.has_room, needed)

    async def _base_of(self, record: PackRecord) -> PackRecord | None:
        base = self._records.get(record.extends)
        if base is None or base.tokens is None or not base.is_ready:
            return None
        problem = await self._load(base) if base.state is PackState.ON_DISK else ""
        return None if problem else base

    async def _built(self, record: PackRecord, done: PackEvent) -> None:
        if self._records.get(record.pack_id) is not record:  # deleted meanwhile: `_delete` has waited for the end
            return
        if not isinstance(done, PackReady):
            self._policy.remove(record.pack_id)
            reason = getattr(done, "reason", "cancelled")
            if reason == ENGINE_LOST:
                self._enqueue(record)
            else:
                self._fail(record, f"engine: {reason}")
            return
        record.on_disk = done.on_disk
        record.disk_problem = done.disk_problem or record.disk_problem
        record.build_s, record.tokens_computed = done.seconds, done.tokens_computed
        record.tokens_done, record.nbytes, record.reason = record.num_tokens, done.nbytes, ""
        if done.attached:
            record.state = PackState.RESIDENT
            self._try_pin(record)
        elif done.on_disk:
            record.state = PackState.ON_DISK
        else:
            self._fail(record, f"no_room: pins leave no memory for it, and {record.disk_problem}")
        await self._measure_disk()
        await self._replace(record)

    async def _replace(self, record: PackRecord) -> None:
        """The pack that this one extends has had its day."""
        old = self._records.get(record.extends)
        if old is not None and record.is_ready:
            await self._delete(old)

    def _fail(self, record: PackRecord, reason: str) -> None:
        record.state, record.reason = PackState.FAILED, reason

    def _progressed(self, event: PackProgress) -> None:
        if (record := self._records.get(event.pack_id)) is not None:
            record.tokens_done = event.tokens_done

    # Memory

    async def _admit(self, record: PackRecord) -> bool:
        """Makes room in memory by the policy's choice; False where pins leave none."""
        if record.pack_id in self._policy.residents:
            return True
        admission = self._policy.admit(record.pack_id, record.nbytes, record.salt)
        for pack_id in admission.evicted:
            await self._evict(self._records[pack_id])
        return admission.admitted

    async def _evict(self, record: PackRecord) -> None:
        self._out_of_memory(record, "evicted: memory was needed, and it was not on disk")
        await self._channel.ask(DetachPack(pack_id=record.pack_id))

    def _out_of_memory(self, record: PackRecord, reason: str) -> None:
        if record.on_disk:
            record.state = PackState.ON_DISK
        else:
            record.state, record.reason = PackState.STALE, reason
            if reason == ENGINE_LOST:
                self._enqueue(record)

    def _load_soon(self, record: PackRecord) -> asyncio.Task[str]:
        task = self._loading.get(record.pack_id)
        if task is None:
            task = asyncio.create_task(self._load_now(record))
            self._loading[record.pack_id] = task
            task.add_done_callback(lambda _: self._loading.pop(record.pack_id, None))
        return task

    async def _load(self, record: PackRecord) -> str:
        """Maps a pack from disk, once for all that wait for it. Returns why it can't be, or nothing."""
        # shielded, because the first asker may leave while others wait
        return await asyncio.shield(self._load_soon(record))

    async def _load_now(self, record: PackRecord) -> str:
        folder = self._store.version_folder(record.pack_id, record.version)
        try:
            await asyncio.to_thread(verify, folder, self._model.identity)
        except PackRefused as error:
            return self._refuse(record, f"{error.code}: {error}")
        if record.state is not PackState.ON_DISK:
            return ""
        if not await self._admit(record):
            return "no_room: pins take the memory it needs"
        done = await self._channel.ask(AttachPack(pack_id=record.pack_id, salt=record.salt, folder=str(folder)))
        if not isinstance(done, PackReady):
            self._policy.remove(record.pack_id)
            reason = getattr(done, "reason", "cancelled")
            return reason if reason == ENGINE_LOST else self._refuse(record, reason)
        record.state = PackState.RESIDENT
        self._try_pin(record)
        return ""

    def _refuse(self, record: PackRecord, reason: str) -> str:
        """What is on disk must not be used: it is built again from its texts."""
        log.warning("pack %s is refused and built again: %s", record.pack_id, reason)
        record.state, record.reason, record.on_disk = PackState.STALE, reason, False
        self._enqueue(record)
        return reason

    def _try_pin(self, record: PackRecord) -> None:
        if not record.options.pin or record.state is not PackState.RESIDENT:
            return
        decision = self._policy.pin(record.pack_id)
        record.pinned = decision.granted
        record.pin_problem = (
            ""
            if decision.granted
            else f"pin_share: it needs {decision.bytes_needed} bytes, and {decision.bytes_available} are left for pins"
        )

    # The end of a pack

    async def _delete(self, record: PackRecord) -> None:
        self._records.pop(record.pack_id, None)
        self._policy.forget(record.pack_id)
        self._touched.pop(record.pack_id, None)
        await self._channel.ask(DetachPack(pack_id=record.pack_id))
        await asyncio.to_thread(self._store.remove, record.pack_id)
        await self._measure_disk()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            for record in [one for one in self._records.values() if _is_over(one)]:
                with contextlib.suppress(OSError):
                    await self._delete(record)

    # Files

    async def _save(self, record: PackRecord) -> bool:
        try:
            await asyncio.to_thread(self._store.save_source, record.pack_id, record.saved())
        except OSError as error:
            record.disk_problem = f"disk_full: {error.strerror}"
            return False
        return True

    async def _touch(self, record: PackRecord) -> None:
        now = time.monotonic()
        if now - self._touched.get(record.pack_id, -TOUCH_S) >= TOUCH_S:
            self._touched[record.pack_id] = now
            await asyncio.to_thread(self._store.touch, record.pack_id)

    async def _measure_disk(self) -> None:
        self.disk_bytes = await asyncio.to_thread(self._store.used_bytes)


def _is_over(record: PackRecord) -> bool:
    return record.expires_at is not None and record.expires_at <= time.time()


def _begins(prompt: list[int], record: PackRecord) -> bool:
    assert record.tokens is not None
    tokens, count = record.tokens.token_ids, record.num_tokens
    return count < len(prompt) and prompt[count - 1] == tokens[-1] and prompt[:count] == tokens


def _miss_reason(prompt: list[int], own: Sequence[PackRecord], fitting: Sequence[PackRecord]) -> str:
    if fitting:
        return max(fitting, key=lambda record: record.num_tokens).state.value
    shared = max(common_prefix(prompt, record.tokens.token_ids) for record in own if record.tokens is not None)
    return "diverged" if shared >= NEAR_MISS_TOKENS else "no_match"
