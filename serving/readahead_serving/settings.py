"""The LLM server's settings: one frozen tree, filled once by whoever starts the server."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from readahead_serving.kernels.build import KernelChoice


class ServingSettings(BaseModel):
    """`[serving]` in readahead.toml, `READAHEAD_SERVING__…` in the environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    host: str = "127.0.0.1"
    """Address that the LLM server listens on."""
    port: int = Field(default=8001, ge=1, le=65535)
    """Port of the LLM server."""
    model: str = "smollm2-135m-instruct"
    """The language model: a name from the catalogue, a folder, a GGUF file or a hub id."""
    embedding_model: str = "all-minilm-l6-v2"
    """The embedding model: a name from the catalogue, a folder or a hub id; empty for none."""
    models_dir: Path = Path("~/.readahead/models")
    """Where downloaded models are kept."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Number format of activations and KV cache."""
    weights: Literal["auto", "fp32", "bf16", "int8", "int4"] = "auto"
    """How weights are held: "auto" as dtype says, or in the blocks of a quantised GGUF file where our kernels run,
    which changes no result; int8 halves bf16's memory, int4 nearly halves it again; fewer bits of a file are kept."""
    kernels: KernelChoice = "auto"
    """Compiled kernels: "auto" takes the best that the processor supports, built with g++ at the first start; without a
    compiler, or with "off", PyTorch computes alone."""
    kernels_dir: Path = Path("~/.readahead/kernels")
    """Where compiled kernels are kept."""
    kv_cache_bytes: int = Field(default=1 << 30, ge=1 << 20)
    """The KV cache's fixed budget in bytes."""
    packs_dir: Path = Path("~/.readahead/packs")
    """Where knowledge packs are kept."""
    pack_kv: Literal["model", "int8"] = "model"
    """How packs hold keys and values: "model" as dtype says; int8 takes half of bfloat16's memory and disk, at an error
    that docs/benchmarks.md tells. Packs of the other kind are built again."""
    pack_memory_bytes: int = Field(default=1 << 30, ge=0)
    """Memory for the KV of all knowledge packs, beside the KV cache's budget."""
    pack_disk_bytes: int = Field(default=10 << 30, ge=0)
    """Disk for all knowledge packs."""
    pack_pin_share: float = Field(default=0.5, ge=0, le=1)
    """Share of `pack_memory_bytes` that one tenant's pinned packs may take."""
    max_running: int = Field(default=64, ge=1)
    """Sequences in the running batch at most."""
    max_waiting: int = Field(default=256, ge=1)
    """Requests in the queue at most; one more is answered 429."""
    prefill_chunk_tokens: int = Field(default=512, ge=16)
    """Prompt tokens that one step computes at most, beside the running streams' tokens."""
    tbt_target_ms: float = Field(default=150.0, gt=0)
    """Milliseconds between two tokens of a running stream that prefill chunks are sized to keep."""
    max_queue_seconds: float = Field(default=30.0, gt=0)
    """Predicted wait, in seconds, beyond which a request is answered 429 with Retry-After."""
    tenant_share: float = Field(default=1.0, gt=0, le=1)
    """Share of the running batch and of the queue that one tenant may have at most; 1 for no limit."""
    max_prompt_tokens: int = Field(default=0, ge=0)
    """Prompt tokens of one request at most; 0 leaves it to the model's window."""
    max_completion_tokens: int = Field(default=0, ge=0)
    """Completion tokens of one request at most; 0 leaves it to the model's window."""
    stall_s: float = Field(default=30.0, gt=0)
    """Seconds without a step, though requests wait, after which the server is not ready. A step takes under ten."""
    stall_restart_s: float = Field(default=120.0, gt=0)
    """Seconds without a step after which the engine process is killed and started again."""
    speculative_tokens: int = Field(default=4, ge=0, le=16)
    """Tokens that greedy requests guess ahead from their own text in one step at most; 0 turns speculation off."""
    speculation_max_running: int = Field(default=8, ge=0)
    """Sequences running beyond which nothing is guessed ahead, because a full batch gains nothing by it."""
    threads: int = Field(default=0, ge=0)
    """Threads of the engine process; 0 takes one per core."""
    embedding_threads: int = Field(default=1, ge=1)
    """Threads of the embedding process, which shares the cores with the engine."""
    embedding_stall_s: float = Field(default=20.0, gt=0)
    """Seconds without an answer after which the embedding process is killed and started again. A batch of a small model
    takes under one."""
    default_max_tokens: int = Field(default=2048, ge=1)
    """Completion tokens of a chat request that names no limit, where the window leaves room for them."""
    api_key: str = Field(default="", repr=False)
    """Bearer key that every request but the health checks must carry; empty for none."""
    max_body_bytes: int = Field(default=32 << 20, ge=1 << 10)
    """Largest request body in bytes."""
    heartbeat_s: float = Field(default=10.0, gt=0)
    """Seconds of silence on a stream after which a comment is sent, so that proxies keep it open."""
    drain_s: float = Field(default=30.0, ge=0)
    """Seconds that requests in flight may take to finish after SIGTERM."""

    @model_validator(mode="after")
    def _limits_agree(self) -> ServingSettings:
        if 0 < self.max_completion_tokens < self.default_max_tokens:
            raise ValueError(
                f"default_max_tokens ({self.default_max_tokens}) is over max_completion_tokens "
                f"({self.max_completion_tokens}): lower it too"
            )
        if self.stall_restart_s < self.stall_s:
            raise ValueError(f"stall_restart_s ({self.stall_restart_s:g}) is under stall_s ({self.stall_s:g})")
        return self


def served_name(model: str) -> str:
    """The name that requests use: a path's last part, without the file's ending; any other name as it is."""
    path = Path(model).expanduser()
    return path.name.removesuffix(".gguf") if path.exists() else model
