"""Run as a program: ingests a file in child processes that kill themselves at every commit, and resumes each time.

Prints one JSON line for each crash: which commit never happened, and what the next open makes of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event

from tests.retrieval.library_parts import TENANT, finished, opened, upload


def in_child(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Runs it in a forked process; returns the exit status, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        asyncio.run(work())
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def ingest_until(home: Path, pdf: Path, fatal: int) -> None:
    """Dies in place of the commit numbered `fatal`, counted from the job's own on."""
    commits = 0

    def count(_connection: Connection) -> None:
        nonlocal commits
        commits += 1
        if commits == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    async with opened(home) as library:
        await library.create_kb(TENANT, "k")
        file_id = await upload(library, pdf)
        added = await library.add_document(TENANT, "k", file_id)
        event.listen(Engine, "commit", count)
        await finished(library, added.id)


async def resume(home: Path, report: Path) -> None:
    async with opened(home) as library:
        (document,) = await library.list_documents(TENANT, "k")
        found_state = document.state
        document = await finished(library, document.id)
        evidence = await library.search(TENANT, "k", "hotel nights breakfast", top_k=1)
    outcome = {
        "found": found_state,
        "state": document.state,
        "pages": [e.page for e in evidence],
        "chunks": [document.chunks, document.chunks_done],
    }
    await asyncio.to_thread(report.write_text, json.dumps(outcome))


def indexed_chunks(home: Path) -> list[int]:
    """Of every generation on disk."""
    return [json.loads(path.read_bytes())["chunks"] for path in home.glob("indexes/*/*/manifest.json")]


def main() -> None:
    folder, pdf = Path(sys.argv[1]), Path(sys.argv[2])
    fatal = 1
    while True:
        home, report = folder / f"home{fatal}", folder / f"report{fatal}.json"
        killed = in_child(partial(ingest_until, home, pdf, fatal)) == -signal.SIGKILL
        status = in_child(partial(resume, home, report))
        outcome = json.loads(report.read_text()) if status == 0 else {"status": status}
        outcome |= {"fatal": fatal, "killed": killed, "indexed": indexed_chunks(home)}
        print(json.dumps(outcome), flush=True)
        if not killed:
            return
        fatal += 1


if __name__ == "__main__":
    main()
