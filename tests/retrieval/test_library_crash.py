"""kill -9 at any moment: the next open finishes the document, and never answers from half of it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from readahead_retrieval.types import DocumentState


async def test_killed_in_place_of_any_commit_a_document_still_becomes_searchable(
    tmp_path: Path, handbook: Path
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.retrieval.crash_driver",
        str(tmp_path),
        str(handbook),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    outcomes = [json.loads(line) for line in output.splitlines()]

    crashes = [o for o in outcomes if o["killed"]]
    assert outcomes[-1]["killed"] is False  # the driver went through every commit
    for outcome in outcomes:
        assert outcome["state"] == DocumentState.SEARCHABLE, outcome
        assert outcome["pages"] == [2], outcome
        assert len({*outcome["chunks"], *outcome["indexed"]}) == 1, outcome
        assert len(outcome["indexed"]) == 1, outcome  # nothing half written stays
    # A crash was survived at every stage.
    assert {o["found"] for o in crashes} >= {"queued", "extracting", "chunking", "embedding", "indexing"}
