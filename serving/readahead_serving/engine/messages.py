"""What the engine process and its client say to each other beside requests: settings in, tokens and state out."""

from __future__ import annotations

from typing import Literal

import msgspec

from readahead_serving.engine.pack_messages import PackCommand, PackEvent
from readahead_serving.engine.request import AbortRequest, EngineStats, FinishReason, GenerationRequest, TokenLogprobs
from readahead_serving.kernels.build import KernelChoice


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All that an engine process is told when it starts."""

    model_path: str
    dtype: Literal["bfloat16", "float32"]
    weights: Literal["auto", "fp32", "bf16", "int8", "int4"]
    kernels: KernelChoice = "auto"
    kernels_dir: str
    kv_cache_bytes: int
    pack_kv: Literal["model", "int8"] = "model"
    max_running: int
    prefill_chunk_tokens: int
    tbt_target_ms: float
    tenant_share: float
    threads: int
    """0 takes one per core."""
    speculative_tokens: int = 0
    """Draft tokens of one greedy sequence in one step at most; 0 for no speculation."""
    speculation_max_running: int = 0
    """Sequences running beyond which there is no speculation."""
    commands: str
    """ZeroMQ address that the engine pulls requests from."""
    outputs: str
    """ZeroMQ address that the engine pushes outputs to."""


class EngineLoaded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The model is in memory and has been used once: requests may come."""

    vocab_size: int
    max_positions: int
    """Tokens of the model's context window."""
    kv_tokens_total: int
    """Tokens that the KV cache holds at most."""
    warm_up_steps: int = 0
    """Steps made before, so that no request waits for what only a first one needs."""


class EngineFailed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The engine cannot start with these settings or this model."""

    message: str


class SequenceOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What one step added to one request. Exactly one output of a request carries a `finish_reason`."""

    request_id: str
    token_ids: list[int]
    finish_reason: FinishReason | None = None
    error: str | None = None
    logprobs: list[TokenLogprobs] = []
    """One for each of the tokens, where the request asked for them."""
    prompt_logprobs: list[TokenLogprobs] = []
    """Of the next prompt tokens, where the request asked for them."""
    started_at: float | None = None
    """Monotonic clock, which all processes of a machine share: when the first step began; on the first output."""
    cached_tokens: int | None = None
    """Prompt tokens that were taken over instead of computed; on the first output."""


class StepOutputs(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All that one step gave."""

    outputs: list[SequenceOutput]
    stats: EngineStats | None = None
    packs: list[PackEvent] = []
    """What has become of packs."""


Command = GenerationRequest | AbortRequest | PackCommand
Event = EngineLoaded | EngineFailed | StepOutputs
