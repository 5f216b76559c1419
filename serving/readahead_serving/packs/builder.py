"""Builds one pack: room on disk, a base to begin with, the engine's work, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from readahead_serving.engine.kv.pack_manifest import PAGE_BYTES
from readahead_serving.engine.kv.pack_policy import PackPolicy
from readahead_serving.engine.kv.pack_store import PackStore
from readahead_serving.engine.pack_messages import BuildPack, PackEvent, PackReady
from readahead_serving.packs.channel import ENGINE_LOST, PackChannel
from readahead_serving.packs.pack_model import PackModel
from readahead_serving.packs.record import PackRecord, PackState, version_of
from readahead_serving.packs.residency import PackResidency
from readahead_serving.packs.source import encode_pack

MANIFEST_BYTES = 16 << 10
"""Room for what stands beside a pack's blocks on disk."""


class PackBuilder:
    """Takes a record from its texts to a pack that can be asked, or to a reason why not.

    Args:
        records: The shelf's packs, by id.
        enqueue: Has a pack built again.
    """

    def __init__(
        self,
        model: PackModel,
        store: PackStore,
        policy: PackPolicy,
        channel: PackChannel,
        residency: PackResidency,
        records: Mapping[str, PackRecord],
        enqueue: Callable[[PackRecord], None],
    ) -> None:
        self._model = model
        self._store = store
        self._policy = policy
        self._channel = channel
        self._residency = residency
        self._records = records
        self._enqueue = enqueue

    async def build(self, record: PackRecord) -> None:
        record.state, record.tokens_done = PackState.BUILDING, 0
        if record.tokens is None:
            record.tokens = await asyncio.to_thread(encode_pack, record.source, self._model.encoder)
        token_ids = record.tokens.token_ids
        if len(token_ids) >= self._model.window:
            window = self._model.window
            self.fail(record, f"too_large: its {len(token_ids)} tokens leave no room in the window of {window}")
            return
        record.nbytes = self._model.size.nbytes(len(token_ids))
        record.version = version_of(self._model.identity, token_ids)
        folder = await self._folder_for(record)
        await self._load_base(record)
        admitted = await self._residency.admit(record)
        if self._records.get(record.pack_id) is not record:  # deleted meanwhile
            self._policy.forget(record.pack_id)
            await asyncio.to_thread(self._store.remove, record.pack_id)
            return
        done = await self._channel.ask(
            BuildPack(
                pack_id=record.pack_id,
                salt=record.salt,
                token_ids=token_ids,
                identity=self._model.identity,
                documents=record.tokens.documents,
                folder=folder,
                attach=admitted,
            )
        )
        self._built(record, done)

    async def _folder_for(self, record: PackRecord) -> str:
        """Where the pack is to be written; empty, with the reason in the record, where it can't be."""
        record.disk_problem = ""
        if not await self.save(record):
            return ""
        await asyncio.to_thread(self._store.remove_versions, record.pack_id)
        if not await self._make_disk_room(record):
            record.disk_problem = f"disk_cap: {record.nbytes} bytes do not fit the cap of {self._store.cap_bytes} bytes"
            return ""
        return str(self._store.version_folder(record.pack_id, record.version))

    async def _make_disk_room(self, record: PackRecord) -> bool:
        """Drops the KV of packs that were used longest ago and are in no memory, until there is room."""
        needed = record.nbytes + 4 * record.num_tokens + self._model.size.num_blocks * PAGE_BYTES + MANIFEST_BYTES
        idle = (r for r in self._records.values() if r.state is PackState.ON_DISK and not r.options.pin)
        for victim in sorted(idle, key=lambda r: r.used_at):
            if await asyncio.to_thread(self._store.has_room, needed):
                return True
            await asyncio.to_thread(self._store.remove_versions, victim.pack_id)
            victim.on_disk = False
            victim.state, victim.reason = PackState.STALE, "evicted: the disk's cap needed its room"
        return await asyncio.to_thread(self._store.has_room, needed)

    async def _load_base(self, record: PackRecord) -> None:
        """Has the pack that this one extends in memory, where the build finds the tokens that they share."""
        base = self._records.get(record.extends)
        if base is not None and base.state is PackState.ON_DISK:
            await self._residency.load(base)

    def _built(self, record: PackRecord, done: PackEvent) -> None:
        if self._records.get(record.pack_id) is not record:  # deleted meanwhile, which has waited for the end
            return
        if not isinstance(done, PackReady):
            self._policy.remove(record.pack_id)
            reason = getattr(done, "reason", "cancelled")
            if reason == ENGINE_LOST:
                self._enqueue(record)
            else:
                self.fail(record, f"engine: {reason}")
            return
        record.on_disk = done.on_disk
        record.disk_problem = done.disk_problem or record.disk_problem
        record.build_s, record.tokens_computed = done.seconds, done.tokens_computed
        record.tokens_done, record.nbytes, record.reason = record.num_tokens, done.nbytes, ""
        if done.attached:
            record.state = PackState.RESIDENT
            self._residency.try_pin(record)
        elif done.on_disk:
            record.state = PackState.ON_DISK
        else:
            self.fail(record, f"no_room: pins leave no memory for it, and {record.disk_problem}")

    def fail(self, record: PackRecord, reason: str) -> None:
        record.state, record.reason = PackState.FAILED, reason

    async def save(self, record: PackRecord) -> bool:
        """Keeps what a pack is made from, unless it is deleted meanwhile: nothing may bring it back at a restart."""
        try:
            await asyncio.to_thread(self._store.save_source, record.pack_id, record.saved())
        except OSError as error:
            record.disk_problem = f"disk_full: {error.strerror}"
            return False
        if record.pack_id not in self._records:
            await asyncio.to_thread(self._store.remove, record.pack_id)
        return True
