"""Run as a program: publishes index after index in child processes, each killed somewhere in the middle of it.

Every child first finds the library as the one before left it, waits until all documents are searchable, and asks for
some of them. Prints one JSON line for each child: what was wrong, if anything, and whether the kill hit a publication.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

from readahead_retrieval.library import Library
from readahead_retrieval.types import DocumentState
from tests.retrieval import pdf_samples as samples
from tests.retrieval.crash_driver import in_child, indexed_chunks
from tests.retrieval.library_parts import TENANT, finished, opened, upload

ASKED = 3
"""Documents that each child asks for."""
LONGEST_S = 0.06
"""From the state "indexing" to the kill, at most; a publication of these documents takes about half of it."""


def text(number: int) -> str:
    return f"Room{number} belongs to department{number * 7} and holds shelf{number * 13}."


async def find_all(library: Library, chance: random.Random) -> str:
    """Returns what is wrong, or nothing."""
    held = await library.list_documents(TENANT, "k")
    ended = [await finished(library, document.id) for document in held]
    if lost := [document.name for document in ended if document.state is not DocumentState.SEARCHABLE]:
        return f"not searchable: {lost}"
    names = {document.name for document in held}
    for document in chance.sample(held, min(ASKED, len(held))):
        number = int(document.name.removesuffix(".pdf"))
        found = await library.search(TENANT, "k", f"room{number} department{number * 7}", top_k=2)
        if found[0].document != document.name:
            return f"{found[0].document} for {document.name}"
        if gone := {evidence.document for evidence in found} - names:
            return f"removed and still found: {gone}"
    return ""


async def publish_until_killed(home: Path, number: int, report: Path) -> None:
    chance = random.Random(number)
    async with opened(home) as library:
        if number == 0:
            await library.create_kb(TENANT, "k")
        wrong = await find_all(library, chance)
        await asyncio.to_thread(report.write_text, json.dumps({"number": number, "wrong": wrong}))
        path = await asyncio.to_thread(samples.write_pdf, home / f"{number}.pdf", samples.lines(text(number)))
        if number % 4 == 3:
            oldest = (await library.list_documents(TENANT, "k"))[0]
            await library.remove_document(TENANT, oldest.id)
        added = await library.add_document(TENANT, "k", await upload(library, path))
        async for document in library.watch(TENANT, added.id):
            if document.state is DocumentState.INDEXING:
                threading.Thread(target=_die, args=(chance.uniform(0, LONGEST_S),), daemon=True).start()
    os.kill(os.getpid(), signal.SIGKILL)


def _die(after_s: float) -> None:
    time.sleep(after_s)
    os.kill(os.getpid(), signal.SIGKILL)


async def look_once_more(home: Path, report: Path) -> None:
    async with opened(home) as library:
        wrong = await find_all(library, random.Random(0))
        documents = len(await library.list_documents(TENANT, "k"))
    outcome = {"wrong": wrong, "documents": documents, "chunks": indexed_chunks(home)}
    await asyncio.to_thread(report.write_text, json.dumps(outcome))


def partial_folders(home: Path) -> int:
    return len(list(home.glob("indexes/*/*.partial"))) + max(len(list(home.glob("indexes/*/*/manifest.json"))) - 1, 0)


def main() -> None:
    home, report, kills = Path(sys.argv[1]) / "home", Path(sys.argv[1]) / "report.json", int(sys.argv[2])
    home.mkdir()
    for number in range(kills):
        status = in_child(partial(publish_until_killed, home, number, report))
        outcome = json.loads(report.read_text())
        print(json.dumps(outcome | {"status": status, "left_behind": partial_folders(home)}), flush=True)
    status = in_child(partial(look_once_more, home, report))
    print(json.dumps(json.loads(report.read_text()) | {"status": status}), flush=True)


if __name__ == "__main__":
    main()
