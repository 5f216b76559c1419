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

from readahead_serving.engine.kv.pack_policy import PackPolicy
from readahead_serving.engine.kv.pack_store import PackStore
from readahead_serving.engine.kv.pack_table import MIN_PART, common_prefix
from readahead_serving.engine.pack_messages import (
    DetachPack,
    PackCommand,
    PackEvent,
    PackProgress,
)
from readahead_serving.engine.request import PackMiss
from readahead_serving.errors import EngineBusy, PackNotFound, PackTooLarge, RequestRefused
from readahead_serving.packs.adoption import adopt
from readahead_serving.packs.builder import PackBuilder
from readahead_serving.packs.channel import PackChannel
from readahead_serving.packs.estimate import PackEstimate, estimate
from readahead_serving.packs.pack_model import PackModel
from readahead_serving.packs.record import MAX_METADATA, PackOptions, PackRecord, PackState
from readahead_serving.packs.residency import PackResidency
from readahead_serving.packs.source import PackDocument, PackSource, encode_pack

MAX_PACKS = 1000
MAX_QUEUED = 64
SWEEP_S = 1.0
"""Packs whose time is over are deleted at most this much later."""
NEAR_MISS_TOKENS = 16
"""A prompt that shares this many tokens with a pack was meant for it."""
DIVERGED, NO_MATCH = "diverged", "no_match"
"""Why a prompt reads no pack: it parts from the nearest one, or was meant for none."""
TOUCH_S = 5.0
"""A pack's last use is written to disk at most this often."""

log = logging.getLogger(__name__)


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
        self._residency = PackResidency(model.identity, store, policy, self._channel, self._records, self._enqueue)
        self._builder = PackBuilder(model, store, policy, self._channel, self._residency, self._records, self._enqueue)
        self._queue: asyncio.Queue[str] = asyncio.Queue()
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
        self._records.update(await asyncio.to_thread(adopt, self._store, self._model.identity))
        for record in self._records.values():
            if not record.is_ready:
                self._enqueue(record)
        await self._measure_disk()
        self._tasks = [asyncio.create_task(self._build_all()), asyncio.create_task(self._sweep())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._residency.close()

    # The engine process

    def connect(self, send: Callable[[PackCommand], None]) -> None:
        """An engine process is ready. Pinned packs are loaded at once, others when they are asked for."""
        self._channel.connect(send)
        self._connected.set()
        for record in self._records.values():
            if record.options.pin and record.state is PackState.ON_DISK:
                self._residency.load_soon(record)

    def disconnect(self) -> None:
        """The engine process has died: what was in its memory only is built again."""
        self._connected.clear()
        self._channel.disconnect()
        self._residency.engine_lost()

    def on_event(self, event: PackEvent) -> None:
        self._channel.on_event(event)

    # What callers ask for

    async def estimate(self, source: PackSource) -> PackEstimate:
        """What a pack would cost. Raises `RequestRefused` and `PackTooLarge` as `create` does."""
        tokens = await asyncio.to_thread(encode_pack, source, self._model.encoder)
        return self._estimate(len(tokens.token_ids))

    async def create(self, salt: str, source: PackSource, options: PackOptions, extends: str = "") -> PackRecord:
        """Queues a pack to be built; the same texts again are the same pack, as `PackOptions.asked_again` has it.

        Raises:
            RequestRefused: It is empty, the template takes no such messages, or too many have it.
            PackTooLarge: It leaves no room for a question in the model's window.
            EngineBusy: Too many packs wait to be built, or exist.
        """
        tokens = await asyncio.to_thread(encode_pack, source, self._model.encoder)
        expected = self._estimate(len(tokens.token_ids))
        pack_id = source.pack_id(salt)
        record = self._records.get(pack_id)
        if record is not None:
            options = _asked_again(record, options)
        if record is not None and record.state is not PackState.FAILED:
            return await self.update(salt, pack_id, options)
        if len(self._records) >= MAX_PACKS or self._queue.qsize() >= MAX_QUEUED:
            raise EngineBusy("Too many packs exist or wait to be built: delete some, or try later.", 30.0)
        record = PackRecord(pack_id, salt, source, options, extends=extends, tokens=tokens, nbytes=expected.nbytes)
        self._records[pack_id] = record
        await self._builder.save(record)
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

        Where the old one's metadata names others than the new one's, it stays for these.

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
            await self._residency.load(record)
        self._residency.try_pin(record)
        await self._builder.save(record)
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

    async def prepare(self, salt: str, prompt: list[int]) -> PackRecord | PackMiss | None:
        """Finds the longest pack that a prompt begins with and sees to it that it is in memory.

        Returns:
            The pack that the prompt will read; or why it will not, where it was meant for one; or None.
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
            return self._count_miss(await self._read_a_part(_missed(prompt, own, fitting)))
        self._policy.hit(ready.pack_id)
        problem = await self._residency.load(ready) if ready.state is PackState.ON_DISK else ""
        if problem:
            return self._count_miss(_miss_of(ready, problem.partition(":")[0], prompt))
        self.counts.hits += 1
        ready.hits += 1
        ready.used_at = time.time()
        await self._touch(ready)
        return ready

    async def _read_a_part(self, miss: PackMiss | None) -> PackMiss | None:
        """Has the pack in memory that a prompt parts from, where what they share is worth reading."""
        if miss is not None and miss.shared_tokens >= MIN_PART:
            record = self._records[miss.pack_id]
            self._policy.hit(record.pack_id)
            if record.state is PackState.ON_DISK:
                await self._residency.load(record)
        return miss

    def _count_miss(self, miss: PackMiss | None) -> PackMiss | None:
        self.counts.misses[miss.reason if miss is not None else NO_MATCH] += 1
        return miss

    # Building

    def _estimate(self, tokens: int) -> PackEstimate:
        if tokens >= self._model.window:
            raise PackTooLarge(tokens, self._model.window)
        nbytes = self._model.size.nbytes(tokens)
        return estimate(tokens, nbytes, self._model.stats().costs, self._model.chunk_tokens)

    def _enqueue(self, record: PackRecord) -> None:
        self._queue.put_nowait(record.pack_id)

    async def _build_all(self) -> None:
        while True:
            record = self._records.get(await self._queue.get())
            await self._connected.wait()
            if record is None or record.is_ready:
                continue
            try:
                await self._builder.build(record)
            except Exception as error:  # the top of a loop: one pack's failure must not end the building of others
                log.exception("pack %s could not be built", record.pack_id)
                self._builder.fail(record, f"internal: {error}")
            await self._measure_disk()
            await self._replace(record)

    async def _replace(self, record: PackRecord) -> None:
        """The pack that this one extends has had its day, but for others that have it too."""
        old = self._records.get(record.extends)
        if old is None or not record.is_ready:
            return
        others = old.options.without(record.options)
        if others.metadata:
            old.options = others
            await self._builder.save(old)
        else:
            await self._delete(old)

    def _progressed(self, event: PackProgress) -> None:
        if (record := self._records.get(event.pack_id)) is not None:
            record.tokens_done = event.tokens_done

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

    async def _touch(self, record: PackRecord) -> None:
        now = time.monotonic()
        if now - self._touched.get(record.pack_id, -TOUCH_S) >= TOUCH_S:
            self._touched[record.pack_id] = now
            await asyncio.to_thread(self._store.touch, record.pack_id)

    async def _measure_disk(self) -> None:
        self.disk_bytes = await asyncio.to_thread(self._store.used_bytes)


def _is_over(record: PackRecord) -> bool:
    return record.expires_at is not None and record.expires_at <= time.time()


def _asked_again(record: PackRecord, options: PackOptions) -> PackOptions:
    joined = record.options.asked_again(options)
    if len(joined.metadata) > MAX_METADATA:
        message = f"The pack of these texts has {len(record.options.metadata)} of {MAX_METADATA} entries of metadata."
        raise RequestRefused(message, param="metadata", code="too_much_metadata")
    return joined


def _begins(prompt: list[int], record: PackRecord) -> bool:
    assert record.tokens is not None
    tokens, count = record.tokens.token_ids, record.num_tokens
    return count <= len(prompt) and prompt[count - 1] == tokens[-1] and prompt[:count] == tokens


def _missed(prompt: list[int], own: Sequence[PackRecord], fitting: Sequence[PackRecord]) -> PackMiss | None:
    """Why a prompt reads no pack; None if it shares too little with any to have been meant for it."""
    if fitting:
        longest = max(fitting, key=lambda record: record.num_tokens)
        return _miss_of(longest, longest.state.value, prompt)
    nearest = max((_miss_of(record, DIVERGED, prompt) for record in own), key=lambda miss: miss.shared_tokens)
    return nearest if nearest.shared_tokens >= NEAR_MISS_TOKENS else None


def _miss_of(record: PackRecord, reason: str, prompt: list[int]) -> PackMiss:
    assert record.tokens is not None
    shared = common_prefix(prompt, record.tokens.token_ids)
    return PackMiss(reason=reason, pack_id=record.pack_id, shared_tokens=shared)
