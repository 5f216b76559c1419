"""A hung engine: deadlines hold, readiness goes, and another engine comes. A stopped process is one that hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from readahead_serving.backends.native import NativeEngine
from readahead_serving.backends.watchdog import Watchdog
from readahead_serving.engine.request import DEADLINE_EXCEEDED
from readahead_serving.errors import EngineUnavailable
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.settings import ServingSettings
from tests.serving.generation import collect, request, tokens_of, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = ServingSettings(dtype="float32", kv_cache_bytes=100 << 20, threads=1, stall_s=1.0, stall_restart_s=6.0)


@pytest_asyncio.fixture(loop_scope="module")
async def engine(smollm2_path: Path) -> AsyncIterator[NativeEngine]:
    engine = await NativeEngine.start(SETTINGS, smollm2_path, load_tokenizer(smollm2_path))
    yield engine
    await engine.close()


async def test_a_hung_engine_keeps_no_one_past_a_deadline_and_is_replaced(engine: NativeEngine) -> None:
    assert len(await tokens_of(engine, request([1], max_tokens=2, ignore_eos=True))) == 2
    hung = engine.pid
    assert hung is not None
    os.kill(hung, signal.SIGSTOP)
    with_deadline = collect(engine, request([1], max_tokens=5, deadline=time.time() + 0.5))
    without = asyncio.create_task(tokens_of(engine, request([2], max_tokens=5)))
    [end] = await with_deadline
    assert (end.finish_reason, end.error) == ("abort", DEADLINE_EXCEEDED)
    assert engine.pid == hung, "the deadline held while the engine hung"
    await until(lambda: not engine.is_ready(), "readiness to go")
    with pytest.raises(EngineUnavailable):
        await without
    await until(engine.is_ready, "another engine")
    assert engine.pid != hung
    assert len(await tokens_of(engine, request([1], max_tokens=2, ignore_eos=True))) == 2


async def test_silence_is_a_stall_only_while_something_waits_for_a_step() -> None:
    assert not Watchdog(stall_s=0.0, restart_s=0.0, is_busy=lambda: False).is_stalled
    assert Watchdog(stall_s=0.0, restart_s=0.0, is_busy=lambda: True).is_stalled
    assert not Watchdog(stall_s=60.0, restart_s=60.0, is_busy=lambda: True).is_stalled
