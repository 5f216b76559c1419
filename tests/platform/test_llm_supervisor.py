"""Supervision without a model: what the log cannot keep, and what happens when supervision ends."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from readahead_platform.bounded_log import BoundedLog
from readahead_platform.errors import StartError
from readahead_platform.supervisor import supervised
from readahead_serving.settings import ServingSettings


async def test_a_log_on_a_full_disk_is_read_on_and_remembers_the_last_line() -> None:
    stream = asyncio.StreamReader()
    stream.feed_data(b"first\n")
    stream.feed_data(b"last\n")
    stream.feed_eof()
    log = BoundedLog(Path("/dev/full"))
    await log.fill_from(stream)
    assert stream.at_eof()
    assert log.last_line() == "last"


@pytest.mark.parametrize("program", ["/bin/false", "/no/such/program"])
async def test_what_stands_on_supervision_ends_with_it(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    stopped = asyncio.Event()

    async def serve_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    with pytest.raises(StartError, match="LLM server did not start"):
        async with supervised(ServingSettings(), tmp_path / "llm.log", 30) as supervisor:
            await supervisor.or_failed(serve_for_ever())
    assert stopped.is_set() or program != "/bin/false"
