"""The open generations, one for each knowledge base in use."""

from __future__ import annotations

import asyncio
import shutil
from collections import OrderedDict
from pathlib import Path
from weakref import WeakValueDictionary

from readahead_retrieval.index.generation import Generation
from readahead_retrieval.store import generations
from readahead_retrieval.store.session import Database

MAX_OPEN = 64


class Shelf:
    """Opens the current generation when it is first asked for, and keeps the most recently used ones open."""

    def __init__(self, folder: Path, database: Database) -> None:
        self._folder = folder
        self._database = database
        self._open: OrderedDict[str, Generation] = OrderedDict()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def folder(self, kb_id: str, name: str) -> Path:
        return self._folder / kb_id / name

    async def current(self, kb_id: str) -> Generation | None:
        """None while nothing was published.

        Raises:
            IndexDamaged: when the current one does not hold what was published.
        """
        lock = self._opening.setdefault(kb_id, asyncio.Lock())
        async with lock:
            held = self._open.get(kb_id)
            if held is not None and not await asyncio.to_thread(held.untouched):
                self.forget(kb_id)
            if kb_id not in self._open:
                async with self._database.reading() as session:
                    published = await generations.current(session, kb_id)
                if published is None:
                    return None
                folder = self.folder(kb_id, published.name)
                self.put(kb_id, await asyncio.to_thread(Generation.open, folder, published.manifest_sha256))
            self._open.move_to_end(kb_id)
            return self._open[kb_id]

    def put(self, kb_id: str, generation: Generation) -> None:
        """The one that searches see from now on."""
        self._open[kb_id] = generation
        self._open.move_to_end(kb_id)
        if len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)

    def forget(self, kb_id: str) -> None:
        self._open.pop(kb_id, None)

    async def sweep(self, kb_id: str | None = None) -> None:
        """Deletes the folders that no row names: older generations, and what a crash left half written.

        Files that a search still has open stay readable until it lets go of them.
        """
        async with self._database.reading() as session:
            names = await generations.names(session)
        await asyncio.to_thread(_sweep, self._folder, names, kb_id)


def _sweep(folder: Path, names: dict[str, str], kb_id: str | None) -> None:
    if not folder.is_dir():
        return
    for knowledge_base in folder.iterdir():
        if kb_id not in {None, knowledge_base.name}:
            continue
        for generation in knowledge_base.iterdir():
            if names.get(knowledge_base.name) != generation.name:
                shutil.rmtree(generation, ignore_errors=True)
        if knowledge_base.name not in names:
            shutil.rmtree(knowledge_base, ignore_errors=True)
