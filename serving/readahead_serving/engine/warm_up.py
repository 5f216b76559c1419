"""What a process's first request would wait for, done before the engine says that it is ready."""

from __future__ import annotations

import torch
from torch import Tensor

from readahead_serving.engine.core import EngineCore
from readahead_serving.engine.executor import AttentionFactory, Executor
from readahead_serving.engine.kv.cache import KVCache
from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.kv.storage import KVStorage
from readahead_serving.engine.request import GenerationRequest, SamplingParams
from readahead_serving.engine.scheduler.loop import Scheduler
from readahead_serving.engine.scheduler.plan import StepPlan
from readahead_serving.errors import ModelLoadError
from readahead_serving.model.decoder import Decoder

PROMPT_TOKENS = 32
OUTPUT_TOKENS = 3


class _Watched:
    """An executor that remembers whether every logit was a number."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.finite = True

    def execute(self, plan: StepPlan) -> Tensor:
        logits = self._executor.execute(plan)
        self.finite = self.finite and bool(torch.isfinite(logits).all())
        return logits


def warm_up(decoder: Decoder, attention: AttentionFactory, origin: str) -> int:
    """Answers two requests, a greedy and a sampled one, in an engine of their own over the same model.

    Libraries choose and compile their kernels, threads start and weights are read for the first time. What this leaves
    is in the process and nowhere else: caches, counters and predictions are that other engine's. What it shows is that
    the weights compute: a file may be whole and hold numbers that are none, as damaged scales of blocks.

    Args:
        origin: The model's file or folder, for the error's message.

    Returns:
        The steps that were made.

    Raises:
        ModelLoadError: A logit is not finite, so that no chat could be answered.
    """
    pool = BlockPool(2)
    config = decoder.config
    storage = KVStorage(
        num_layers=config.num_layers,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        dtype=decoder.dtype,
        num_blocks=pool.num_blocks,
    )
    scheduler = Scheduler(KVCache(pool), max_running=2, prefill_chunk_tokens=PROMPT_TOKENS)
    watched = _Watched(Executor(decoder, storage, attention))
    core = EngineCore(watched, pool, scheduler, lambda _: None, ())
    tokens = [1 + number % (config.vocab_size - 1) for number in range(min(PROMPT_TOKENS, config.max_positions // 2))]
    for name, temperature in (("greedy", 0.0), ("sampled", 1.0)):
        sampling = SamplingParams(max_tokens=OUTPUT_TOKENS, temperature=temperature, top_p=0.9)
        core.add(GenerationRequest(request_id=name, prompt_tokens=tokens, sampling=sampling))
    while core.has_work:
        core.step()
    if not watched.finite:
        raise ModelLoadError(
            f"{origin} gives logits that are not finite numbers: its weights are damaged. Download the model again."
        )
    return core.stats().steps
