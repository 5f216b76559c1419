"""The engine process lives, dies and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
import pytest_asyncio

from readahead_serving.backends.native import NativeEngine
from readahead_serving.engine.pack_messages import PackCommand, PackEvent
from readahead_serving.errors import EngineUnavailable, ModelLoadError
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.settings import ServingSettings
from tests.serving.generation import collect, request, tokens_of, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = ServingSettings(kv_cache_bytes=64 << 20)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(smollm2_path: Path) -> AsyncIterator[NativeEngine]:
    engine = await NativeEngine.start(SETTINGS, smollm2_path, load_tokenizer(smollm2_path))
    yield engine
    await engine.close()


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        # a killed process stays a zombie until its parent has read its exit code
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


async def test_requests_in_flight_end_clearly_when_the_engine_is_killed_and_the_next_one_works(
    engine: NativeEngine,
) -> None:
    streams = [engine.generate(request([1, 2, 3], max_tokens=2000, ignore_eos=True)) for _ in range(3)]
    for stream in streams:
        await anext(stream)
    killed = engine.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    for stream in streams:
        with pytest.raises(EngineUnavailable, match="try again"):
            async for _ in stream:
                pass
    assert not engine.is_ready()
    with pytest.raises(EngineUnavailable):
        await collect(engine, request([1]))
    await until(engine.is_ready, "a new engine")
    assert engine.pid != killed
    assert len(await tokens_of(engine, request([1], max_tokens=5, ignore_eos=True))) == 5
    assert engine.stats().kv_tokens_used == 0 or engine.stats().running == 1


class ClumsyPacks:
    """Packs with a bug: letting go of an engine fails, and so does the first attempt to take up another."""

    def __init__(self) -> None:
        self.connections = 0

    def connect(self, send: Callable[[PackCommand], None]) -> None:
        self.connections += 1
        if self.connections == 2:
            raise ZeroDivisionError("connect")

    def disconnect(self) -> None:
        raise ZeroDivisionError("disconnect")

    def on_event(self, event: PackEvent) -> None:
        raise NotImplementedError

    async def prepare(self, salt: str, prompt: list[int]) -> None:
        return None


async def test_an_engine_comes_back_even_when_our_own_code_fails_meanwhile(
    smollm2_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = await NativeEngine.start(SETTINGS, smollm2_path, load_tokenizer(smollm2_path))
    packs = ClumsyPacks()
    engine.use_packs(packs)
    killed = engine.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    await until(lambda: not engine.is_ready(), "readiness off")
    await until(engine.is_ready, "a new engine")
    assert packs.connections == 3
    assert len(await tokens_of(engine, request([1], max_tokens=2, ignore_eos=True))) == 2
    assert {record.levelname for record in caplog.records if "ZeroDivisionError" in (record.exc_text or "")} == {
        "ERROR"
    }
    with suppress(ZeroDivisionError):
        await engine.close()


async def test_an_engine_that_stops_answering_is_not_ready_and_is_again_when_it_goes_on(
    smollm2_path: Path,
) -> None:
    impatient = SETTINGS.model_copy(update={"stall_s": 0.5})
    engine = await NativeEngine.start(impatient, smollm2_path, load_tokenizer(smollm2_path))
    pid = engine.pid
    assert pid is not None
    stream = engine.generate(request([1, 2, 3], max_tokens=1000, ignore_eos=True))
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(engine.close)
        await stack.enter_async_context(aclosing(stream))
        await anext(stream)
        os.kill(pid, signal.SIGSTOP)
        try:
            await until(lambda: not engine.is_ready(), "readiness off")
        finally:
            os.kill(pid, signal.SIGCONT)
        await until(engine.is_ready, "readiness on")
        await anext(stream)


async def test_closing_ends_the_process_and_the_requests_in_flight(smollm2_path: Path) -> None:
    engine = await NativeEngine.start(SETTINGS, smollm2_path, load_tokenizer(smollm2_path))
    pid = engine.pid
    assert pid is not None
    stream = engine.generate(request([1], max_tokens=2000, ignore_eos=True))
    await anext(stream)
    await engine.close()
    with pytest.raises(EngineUnavailable):
        async for _ in stream:
            pass
    assert not is_alive(pid)
    assert not engine.is_ready()
    with pytest.raises(EngineUnavailable, match="shutting down"):
        await collect(engine, request([1]))


PARENT = """
import asyncio, sys
from pathlib import Path
from readahead_serving.backends.native import NativeEngine
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.settings import ServingSettings

async def main(path):
    engine = await NativeEngine.start(ServingSettings(kv_cache_bytes=64 << 20), path, load_tokenizer(path))
    print(engine.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_the_engine_dies_with_a_parent_that_is_killed(smollm2_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(smollm2_path), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    await parent.wait()
    await until(lambda: not is_alive(pid), "the engine's end")


async def test_a_kv_budget_that_holds_nothing_is_refused_with_the_least_that_would(smollm2_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="at least 2949120"):
        await NativeEngine.start(ServingSettings(kv_cache_bytes=1 << 20), smollm2_path, load_tokenizer(smollm2_path))


@pytest.fixture
def damaged_model(smollm2_path: Path, tmp_path: Path) -> Path:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(smollm2_path.read_bytes()[: 1 << 20])
    return damaged


async def test_a_damaged_model_is_a_clear_error_of_the_start(smollm2_path: Path, damaged_model: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"damaged\.gguf"):
        await NativeEngine.start(SETTINGS, damaged_model, load_tokenizer(smollm2_path))
