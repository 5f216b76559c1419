"""Which packs are in the engine's memory: let in, mapped from disk, pinned, evicted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from readahead_serving.engine.kv.pack_manifest import PackIdentity, PackRefused, verify
from readahead_serving.engine.kv.pack_policy import PackPolicy
from readahead_serving.engine.kv.pack_store import PackStore
from readahead_serving.engine.pack_messages import AttachPack, DetachPack, PackReady
from readahead_serving.packs.channel import ENGINE_LOST, PackChannel
from readahead_serving.packs.record import PackRecord, PackState

log = logging.getLogger(__name__)


class PackResidency:
    """Carries out in the engine what the policy decides, and keeps the records true to it.

    Args:
        identity: What packs must have been made by.
        records: The shelf's packs, by id.
        enqueue: Has a pack built again.
    """

    def __init__(
        self,
        identity: PackIdentity,
        store: PackStore,
        policy: PackPolicy,
        channel: PackChannel,
        records: Mapping[str, PackRecord],
        enqueue: Callable[[PackRecord], None],
    ) -> None:
        self._identity = identity
        self._store = store
        self._policy = policy
        self._channel = channel
        self._records = records
        self._enqueue = enqueue
        self._loading: dict[str, asyncio.Task[str]] = {}

    async def close(self) -> None:
        tasks = list(self._loading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def engine_lost(self) -> None:
        """Nothing is in memory any more; what was there only is built again."""
        for pack_id in self._policy.residents:
            self._policy.remove(pack_id)
        for record in self._records.values():
            record.pinned = False
            if record.state is PackState.RESIDENT:
                self.out_of_memory(record, ENGINE_LOST)

    async def admit(self, record: PackRecord) -> bool:
        """Makes room in memory by the policy's choice; False where pins leave none."""
        if record.pack_id in self._policy.residents:
            return True
        admission = self._policy.admit(record.pack_id, record.nbytes, record.salt)
        for pack_id in admission.evicted:
            await self._evict(self._records[pack_id])
        return admission.admitted

    async def _evict(self, record: PackRecord) -> None:
        self.out_of_memory(record, "evicted: memory was needed, and it was not on disk")
        await self._channel.ask(DetachPack(pack_id=record.pack_id))

    def out_of_memory(self, record: PackRecord, reason: str) -> None:
        if record.on_disk:
            record.state = PackState.ON_DISK
        else:
            record.state, record.reason = PackState.STALE, reason
            if reason == ENGINE_LOST:
                self._enqueue(record)

    def load_soon(self, record: PackRecord) -> asyncio.Task[str]:
        task = self._loading.get(record.pack_id)
        if task is None:
            task = asyncio.create_task(self._load_now(record))
            self._loading[record.pack_id] = task
            task.add_done_callback(lambda _: self._loading.pop(record.pack_id, None))
        return task

    async def load(self, record: PackRecord) -> str:
        """Maps a pack from disk, once for all that wait for it. Returns why it can't be, or nothing."""
        # shielded, because the first asker may leave while others wait
        return await asyncio.shield(self.load_soon(record))

    async def _load_now(self, record: PackRecord) -> str:
        folder = self._store.version_folder(record.pack_id, record.version)
        try:
            await asyncio.to_thread(verify, folder, self._identity)
        except PackRefused as error:
            return self._refuse(record, f"{error.code}: {error}")
        if self._records.get(record.pack_id) is not record:
            return "deleted: it was deleted meanwhile"
        if record.state is not PackState.ON_DISK:
            return ""
        if not await self.admit(record):
            return "no_room: pins take the memory it needs"
        done = await self._channel.ask(AttachPack(pack_id=record.pack_id, salt=record.salt, folder=str(folder)))
        if not isinstance(done, PackReady):
            self._policy.remove(record.pack_id)
            reason = getattr(done, "reason", "cancelled")
            return reason if reason == ENGINE_LOST else self._refuse(record, reason)
        record.state = PackState.RESIDENT
        self.try_pin(record)
        return ""

    def _refuse(self, record: PackRecord, reason: str) -> str:
        """What is on disk must not be used: it is built again from its texts."""
        log.warning("pack %s is refused and built again: %s", record.pack_id, reason)
        record.state, record.reason, record.on_disk = PackState.STALE, reason, False
        self._enqueue(record)
        return reason

    def try_pin(self, record: PackRecord) -> None:
        if not record.options.pin or record.state is not PackState.RESIDENT:
            return
        decision = self._policy.pin(record.pack_id)
        record.pinned = decision.granted
        record.pin_problem = (
            ""
            if decision.granted
            else f"pin_share: it needs {decision.bytes_needed} bytes, and {decision.bytes_available} are left for pins"
        )
