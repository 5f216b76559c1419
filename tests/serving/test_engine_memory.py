"""Memory of a real engine process under load, and packs in bfloat16: one copy of each, and no other tokens."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import pytest_asyncio
import torch

from readahead_serving.backends.native import NativeEngine
from readahead_serving.model.loader import load_model
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.model.reference_attention import ReferenceAttention
from readahead_serving.model.tokenizer import Tokenizer
from readahead_serving.packs.opening import open_shelf
from readahead_serving.packs.record import PackOptions, PackRecord, PackState
from readahead_serving.packs.shelf import PackShelf
from readahead_serving.packs.source import PackMessage, PackSource
from readahead_serving.settings import ServingSettings
from tests.serving.generation import collect, request, until
from tests.serving.test_model_smollm2 import NEAR_TIE

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="memory is read where Linux tells it"),
]

MB = 1 << 20
WEIGHTS = 96_500_000
"""Bytes of SmolLM2-135M as its file holds them, which is what int8 and int4 make of it too."""
KV_CACHE = 128 * MB
OVERHEAD = 400_000_000
"""What the engine may take beside its weights and the KV cache: interpreter, libraries, tokenizer, kernels, a step."""
SOURCE = PackSource(
    messages=(PackMessage("system", " ".join(f"Pump {n} weighs {40 + n * 7 % 31} kg." for n in range(110))),)
)


class Answer(NamedTuple):
    tokens: list[int]
    cached: int


class Engine:
    """An engine process with its packs."""

    def __init__(self, engine: NativeEngine, shelf: PackShelf, tokenizer: Tokenizer) -> None:
        self.native = engine
        self.shelf = shelf
        self.tokenizer = tokenizer

    async def pack(self, salt: str = "") -> PackRecord:
        record = await self.shelf.create(salt, SOURCE, PackOptions())
        await until(lambda: record.state is PackState.RESIDENT, "a resident pack")
        return record

    def prompt(self, number: int) -> list[int]:
        asked = {"role": "user", "content": f"How heavy is pump {number}?"}
        return self.tokenizer.encode_chat([*SOURCE.rendered(), asked])

    async def ask(self, prompt: list[int], tokens: int, salt: str = "") -> Answer:
        asked = msgspec.structs.replace(request(prompt, max_tokens=tokens), salt=salt)
        deltas = await collect(self.native, asked)
        return Answer([token for delta in deltas for token in delta.token_ids], deltas[-1].usage.cached_tokens)

    def memory(self) -> Memory:
        return Memory(self.native.pid)


class Memory:
    """Resident bytes of a process: all, and those of mapped packs, which the system takes back when it needs them."""

    def __init__(self, pid: int | None) -> None:
        self.total = self.packs = 0
        mapped = ""
        for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                mapped = line
            elif line.startswith("Rss:"):
                resident = int(line.split()[1]) * 1024
                self.total += resident
                self.packs += resident if mapped.endswith("kv.bin") else 0

    @property
    def own(self) -> int:
        return self.total - self.packs


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    settings = ServingSettings(
        kv_cache_bytes=KV_CACHE,
        packs_dir=tmp_path_factory.mktemp("packs"),
        max_running=16,
        prefill_chunk_tokens=128,
        max_queue_seconds=600,
    )
    tokenizer = load_tokenizer(smollm2_path)
    native = await NativeEngine.start(settings, smollm2_path, tokenizer)
    shelf = await open_shelf(settings, smollm2_path, tokenizer, native)
    yield Engine(native, shelf, tokenizer)
    await shelf.close()
    await native.close()


async def test_memory_stays_within_weights_and_kv_cache_and_400_megabytes(engine: Engine) -> None:
    assert engine.memory().own < WEIGHTS + OVERHEAD, "the KV cache takes memory when it is used"
    dice = random.Random(1)
    record = await engine.pack("first")
    loads = [dice.choices(range(1000, 40_000), k=dice.randint(1, 300)) for _ in range(40)]
    loads += [engine.prompt(number) for number in range(16)]
    await asyncio.gather(*(engine.ask(prompt, 8, "first") for prompt in loads))
    used = engine.memory()
    assert used.own < WEIGHTS + KV_CACHE + OVERHEAD
    assert used.packs <= record.nbytes + os.sysconf("SC_PAGE_SIZE") * 60


async def test_a_pack_takes_its_bytes_once_however_many_read_it(engine: Engine) -> None:
    record = await engine.pack()
    before = engine.memory()
    answers = await asyncio.gather(*(engine.ask(engine.prompt(number), 4) for number in range(16)))
    after = engine.memory()
    assert all(answer.cached >= record.num_tokens for answer in answers)
    assert after.own - before.own < record.nbytes, "sixteen readers copy nothing of it"
    assert engine.native.stats().pack_bytes == engine.shelf.memory_bytes
    assert after.packs <= engine.shelf.memory_bytes * 1.1


async def test_packs_in_bfloat16_part_from_float32_only_at_near_ties(engine: Engine, smollm2_path: Path) -> None:
    record = await engine.pack()
    prompt = engine.prompt(3)
    written, cached = await engine.ask(prompt, 8)
    assert cached >= record.num_tokens
    exact, whole = load_model(smollm2_path, torch.float32).decoder, torch.tensor(prompt + written)
    rows = torch.arange(len(prompt) - 1, len(whole) - 1)
    logits = exact.forward(whole, torch.arange(len(whole)), ReferenceAttention(), rows)
    gaps = logits.max(-1).values - logits.gather(-1, torch.tensor(written)[:, None]).squeeze(-1)
    assert gaps.max() < NEAR_TIE
