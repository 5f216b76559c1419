"""kill -9 while an index is published: the next start answers right, from the old generation or the new one.

READAHEAD_TEST_PUBLISH_KILLS sets how often; a run of 200 belongs to a change of how indexes are written.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

KILLS = int(os.environ.get("READAHEAD_TEST_PUBLISH_KILLS", "15"))


@pytest.mark.timeout(60 + 20 * KILLS)
async def test_killed_while_publishing_a_library_answers_right_after_every_start(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.retrieval.publish_crash_driver",
        str(tmp_path),
        str(KILLS),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    *children, last = [json.loads(line) for line in output.splitlines()]

    assert len(children) == KILLS
    for child in children:
        assert (child["status"], child["wrong"]) == (-signal.SIGKILL, ""), child
    # Some kills fell between the first written byte and the sweep of what was replaced.
    assert sum(child["left_behind"] > 0 for child in children) >= KILLS // 10
    assert (last["status"], last["wrong"]) == (0, "")
    assert last["chunks"] == [last["documents"]]  # one generation, whole
