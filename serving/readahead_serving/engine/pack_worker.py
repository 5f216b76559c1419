"""Packs in the engine process: builds them between other work, writes them in a thread, maps them back."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from readahead_serving.engine.freed_memory import give_back_freed_memory
from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.pack_files import map_pack, write_pack
from readahead_serving.engine.kv.pack_manifest import PackRefused
from readahead_serving.engine.messages import SequenceOutput
from readahead_serving.engine.pack_builds import BuildProgress
from readahead_serving.engine.pack_messages import (
    AttachPack,
    BuildPack,
    DetachPack,
    PackCommand,
    PackDetached,
    PackEvent,
    PackLost,
    PackProgress,
    PackReady,
)

DISK_FULL = "disk_full"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class PackCore(Protocol):
    """The part of `EngineCore` that holds packs."""

    def build_pack(self, pack_id: str, salt: str, token_ids: list[int]) -> None: ...

    def build_progress(self) -> list[BuildProgress]: ...

    def export_pack(self, pack_id: str) -> PackKV: ...

    def attach_pack(self, pack_id: str, salt: str, kv: PackKV) -> None: ...

    def detach_pack(self, pack_id: str) -> bool: ...

    def abort(self, request_id: str) -> None: ...


FinishPack = Callable[[PackKV], PackKV]
"""Brings a built pack into the form in which it is kept."""


def as_built(kv: PackKV) -> PackKV:
    return kv


class _Kept(NamedTuple):
    """What has become of a pack that was built."""

    kv: PackKV
    on_disk: bool = False
    problem: str = ""
    """Why it is not on disk, where it should be."""


@dataclass(slots=True)
class _Build:
    command: BuildPack
    started_at: float = field(default_factory=time.monotonic)
    computed: int = 0
    seconds: float = 0.0
    keeping: Future[_Kept] | None = None
    cancelled: bool = False


class PackWorker:
    """Carries out pack commands. One build at a time is the sender's business; any number works.

    Args:
        core: The engine.
        finish: Called with each pack that was built, in a thread.
    """

    def __init__(self, core: PackCore, finish: FinishPack = as_built) -> None:
        self._core = core
        self._finish = finish
        self._writer = ThreadPoolExecutor(1, "pack-writer")
        self._builds: dict[str, _Build] = {}
        self._told: dict[str, int] = {}
        self._events: list[PackEvent] = []

    @property
    def is_writing(self) -> bool:
        """Whether a thread works: `poll` again soon."""
        return any(build.keeping is not None for build in self._builds.values())

    def handle(self, command: PackCommand) -> None:
        match command:
            case BuildPack():
                self._begin(command)
            case AttachPack():
                self._map(command)
            case DetachPack():
                self._detach(command.pack_id)

    def take_ends(self, outputs: Iterable[SequenceOutput]) -> list[SequenceOutput]:
        """Keeps what is said about builds, and gives the rest back."""
        rest = []
        for output in outputs:
            build = self._builds.get(output.request_id)
            if build is None:
                rest.append(output)
            elif output.finish_reason is not None:
                self._end(build, output)
        return rest

    def poll(self) -> list[PackEvent]:
        """All that has come about since the last call."""
        for build in [b for b in self._builds.values() if b.keeping is not None and b.keeping.done()]:
            self._kept(build)
        for progress in self._core.build_progress():
            if self._told.get(progress.pack_id) != progress.num_computed:
                self._told[progress.pack_id] = progress.num_computed
                self._events.append(PackProgress(pack_id=progress.pack_id, tokens_done=progress.num_computed))
        events, self._events = self._events, []
        return events

    def _begin(self, command: BuildPack) -> None:
        self._builds[command.pack_id] = _Build(command)
        self._core.build_pack(command.pack_id, command.salt, command.token_ids)

    def _end(self, build: _Build, output: SequenceOutput) -> None:
        command = build.command
        self._told.pop(command.pack_id, None)
        if output.finish_reason != "length":
            self._lose(build, "cancelled" if build.cancelled else output.error or "the engine gave the build up")
            return
        build.seconds = time.monotonic() - build.started_at
        build.computed = len(command.token_ids) - (output.cached_tokens or 0)
        build.keeping = self._writer.submit(self._keep, command, self._core.export_pack(command.pack_id))

    def _keep(self, command: BuildPack, built: PackKV) -> _Kept:
        """In the writer's thread."""
        kv = self._finish(built)
        if not command.folder:
            return _Kept(kv)
        folder = Path(command.folder)
        try:
            write_pack(folder, kv, command.identity, command.documents)
            return _Kept(map_pack(folder), on_disk=True)
        except (OSError, PackRefused) as error:
            return _Kept(kv, problem=_disk_problem(error))

    def _kept(self, build: _Build) -> None:
        assert build.keeping is not None
        kept = build.keeping.result()
        if build.cancelled:
            self._lose(build, "cancelled")
        else:
            self._ready(build, kept)
        build.keeping = None
        give_back_freed_memory()

    def _ready(self, build: _Build, kept: _Kept) -> None:
        command = build.command
        del self._builds[command.pack_id]
        attached = command.attach
        if attached:
            self._attach(command.pack_id, command.salt, kept.kv)
        self._events.append(
            PackReady(
                pack_id=command.pack_id,
                attached=attached,
                nbytes=kept.kv.nbytes,
                on_disk=kept.on_disk,
                disk_problem=kept.problem,
                seconds=build.seconds,
                tokens_computed=build.computed,
            )
        )

    def _lose(self, build: _Build, reason: str) -> None:
        pack_id = build.command.pack_id
        del self._builds[pack_id]
        self._events.append(
            PackDetached(pack_id=pack_id) if build.cancelled else PackLost(pack_id=pack_id, reason=reason)
        )

    def _map(self, command: AttachPack) -> None:
        try:
            kv = map_pack(Path(command.folder))
        except (OSError, PackRefused) as error:
            self._events.append(PackLost(pack_id=command.pack_id, reason=f"damaged: {error}"))
            return
        self._attach(command.pack_id, command.salt, kv)
        self._events.append(PackReady(pack_id=command.pack_id, attached=True, nbytes=kv.nbytes, on_disk=True))

    def _attach(self, pack_id: str, salt: str, kv: PackKV) -> None:
        self._core.detach_pack(pack_id)
        self._core.attach_pack(pack_id, salt, kv)

    def _detach(self, pack_id: str) -> None:
        build = self._builds.get(pack_id)
        if build is not None:
            build.cancelled = True  # told once the build has ended, and with it the writing of its files
            self._core.abort(pack_id)
            return
        self._core.detach_pack(pack_id)
        self._events.append(PackDetached(pack_id=pack_id))


def _disk_problem(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in _FULL:
        return f"{DISK_FULL}: {error.strerror}"
    return f"disk_failed: {error}"
