"""The engine's greedy tokens against transformers'.

`transformers` is asked about a whole completion at once: where every token is its argmax after those before, the
completion is what its own greedy decoding writes.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import torch
from torch import Tensor

from readahead_serving.backends.native import NativeEngine
from readahead_serving.engine.request import GenerationRequest
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.settings import ServingSettings
from tests.serving.generation import request, tokens_of
from tests.serving.prompts import PROMPTS

# 1,280 steps one after another, which a busy machine takes its time for
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

TOKENS = 64
NEAR_TIE = 0.35
"""Logits as close as this may change places in bfloat16, whose 8 bits resolve 0.06 to 0.12 at logits of 10 to 20."""


@pytest.fixture(scope="module")
def prompts(smollm2_path: Path) -> list[list[int]]:
    tokenizer = load_tokenizer(smollm2_path)
    return [tokenizer.encode(prompt, allow_special=True) for prompt in PROMPTS]


def settings(dtype: str, kernels: str = "auto") -> ServingSettings:
    # chunks shorter than the longest prompt, so that some prompts take several steps beside the others' decodes
    return ServingSettings.model_validate(
        {"dtype": dtype, "kernels": kernels, "kv_cache_bytes": 400 << 20, "prefill_chunk_tokens": 32, "max_running": 16}
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(smollm2_path: Path) -> AsyncIterator[NativeEngine]:
    engine = await NativeEngine.start(settings("float32"), smollm2_path, load_tokenizer(smollm2_path))
    yield engine
    await engine.close()


def greedy(prompt: list[int]) -> GenerationRequest:
    return request(prompt, max_tokens=TOKENS, ignore_eos=True)


@functools.cache
def oracle_choices(model: Any, prompt: tuple[int, ...], completion: tuple[int, ...]) -> list[int]:
    """Transformers' greedy choice at each token of a completion; asked once where all ways to compute agree."""
    chosen: list[int] = oracle_logits(model, [*prompt], [*completion]).argmax(-1).tolist()
    return chosen


def oracle_logits(model: Any, prompt: list[int], completion: list[int]) -> Tensor:
    """What transformers thinks of each token of a completion: (tokens, vocab)."""
    with torch.inference_mode():
        logits: Tensor = model(torch.tensor([prompt + completion])).logits[0]
    return logits[len(prompt) - 1 : -1]


def assert_greedy(model: Any, prompt: list[int], completion: list[int]) -> None:
    assert len(completion) == TOKENS
    assert oracle_choices(model, tuple(prompt), tuple(completion)) == completion


async def mixed_batch(engine: NativeEngine, prompts: list[list[int]]) -> list[list[int]]:
    """All prompts together, one joining every few tokens of the others, among neighbours of other kinds."""
    seen = 0
    progress = asyncio.Condition()

    async def one(place: int, asked: GenerationRequest) -> list[int]:
        nonlocal seen
        async with progress:
            await progress.wait_for(lambda: seen >= 3 * place)
        tokens: list[int] = []
        async for delta in engine.generate(asked):
            tokens += delta.token_ids
            async with progress:
                seen += len(delta.token_ids)
                progress.notify_all()
        return tokens

    neighbours = [
        request(
            prompts[place], max_tokens=10 + 7 * place, temperature=1.0, seed=place, top_p=0.9, frequency_penalty=0.5
        )
        for place in range(8)
    ]
    asked = [greedy(prompt) for prompt in prompts]
    order = [one_asked for pair in zip(asked, neighbours, strict=False) for one_asked in pair] + asked[
        len(neighbours) :
    ]
    results = await asyncio.gather(*(one(place, one_asked) for place, one_asked in enumerate(order)))
    written = {one_asked.request_id: tokens for one_asked, tokens in zip(order, results, strict=True)}
    return [written[one_asked.request_id] for one_asked in asked]


async def test_each_prompt_alone_gives_transformers_tokens(
    engine: NativeEngine, prompts: list[list[int]], hf_smollm2: Any
) -> None:
    assert len(prompts) == 20
    for prompt in prompts:
        assert_greedy(hf_smollm2, prompt, await tokens_of(engine, greedy(prompt)))


async def test_a_mixed_batch_of_16_gives_transformers_tokens(
    engine: NativeEngine, prompts: list[list[int]], hf_smollm2: Any
) -> None:
    completions = await mixed_batch(engine, prompts)
    for prompt, completion in zip(prompts, completions, strict=True):
        assert_greedy(hf_smollm2, prompt, completion)


@pytest.mark.parametrize("kernels", ["off", "avx2"])
async def test_a_mixed_batch_gives_transformers_tokens_without_the_best_kernels_too(
    kernels: str, smollm2_path: Path, prompts: list[list[int]], hf_smollm2: Any
) -> None:
    engine = await NativeEngine.start(settings("float32", kernels), smollm2_path, load_tokenizer(smollm2_path))
    fewer = prompts[1::2]
    try:
        completions = await mixed_batch(engine, fewer)
    finally:
        await engine.close()
    for prompt, completion in zip(fewer, completions, strict=True):
        assert_greedy(hf_smollm2, prompt, completion)


@pytest.mark.parametrize("kernels", ["auto", "avx2", "off"])
async def test_bfloat16_parts_from_float32_only_at_near_ties(
    kernels: str, smollm2_path: Path, prompts: list[list[int]], hf_smollm2: Any
) -> None:
    engine = await NativeEngine.start(settings("bfloat16", kernels), smollm2_path, load_tokenizer(smollm2_path))
    asked = prompts if kernels == "auto" else prompts[1::2]
    try:
        completions = await mixed_batch(engine, asked)
    finally:
        await engine.close()
    for prompt, completion in zip(asked, completions, strict=True):
        assert len(completion) == TOKENS
        logits = oracle_logits(hf_smollm2, prompt, completion)
        gap = logits.max(-1).values - logits.gather(-1, torch.tensor(completion).unsqueeze(-1)).squeeze(-1)
        assert float(gap.max()) < NEAR_TIE, (prompt, completion)
