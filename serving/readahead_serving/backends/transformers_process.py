"""The process that runs other families' models: `python -m readahead_serving.backends.transformers_process`.

It is told the same and says the same as our own engine's process, so that one client serves both.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import torch
import transformers

from readahead_serving.backends.transformers_runners import PAGE_TOKENS, Progress, Runner, choose_runner
from readahead_serving.engine.messages import Command, EngineConfig, EngineLoaded, SequenceOutput, StepOutputs
from readahead_serving.engine.process import STATS_INTERVAL_S, Channel, run_process
from readahead_serving.engine.request import (
    DEADLINE_EXCEEDED,
    AbortRequest,
    EngineStats,
    FinishReason,
    GenerationRequest,
)
from readahead_serving.errors import ModelLoadError
from readahead_serving.model.metadata import read_eos_ids
from readahead_serving.model.pickles import refuse_pickles

_UNBOUNDED_POSITIONS = 2048
"""The window of models that name none (ALiBi has no largest position)."""


class Loop:
    """Feeds the runner from the channel and the channel from the runner, for ever."""

    def __init__(self, runner: Runner, channel: Channel, eos_ids: frozenset[int], cache_tokens: int) -> None:
        self._runner = runner
        self._channel = channel
        self._eos_ids = eos_ids
        self._cache_tokens = cache_tokens
        self._requests: dict[str, GenerationRequest] = {}
        self._received = self._steps = self._prompt_tokens = self._completion_tokens = self._aborted = 0
        self._held: dict[str, int] = {}
        self._stats_sent_at = 0.0

    def run(self) -> NoReturn:
        while True:
            self.turn()

    def turn(self) -> None:
        """One turn: what has come, a moment's work, what it gave."""
        outputs: list[SequenceOutput] = []
        for command in self._channel.receive(0 if self._requests else None):
            outputs += self._handle(command)
        outputs += self._expire()
        if self._requests:
            progress = self._runner.poll()
            self._steps += bool(progress)
            outputs += map(self._output, progress)
        if outputs or self._stats_due():
            self._stats_sent_at = time.monotonic()
            self._channel.send(StepOutputs(outputs=outputs, stats=self._stats()))

    def _handle(self, command: Command) -> list[SequenceOutput]:
        match command:
            case GenerationRequest():
                self._requests[command.request_id] = command
                self._held[command.request_id] = 0
                self._received += 1
                ignore_eos = command.sampling.ignore_eos
                self._runner.add(command, frozenset() if ignore_eos else self._eos_ids)
            case AbortRequest() if command.request_id in self._requests:
                return [self._give_up(command.request_id, None)]
        return []

    def _expire(self) -> list[SequenceOutput]:
        now = time.time()
        late = [name for name, one in self._requests.items() if one.deadline is not None and one.deadline <= now]
        return [self._give_up(name, DEADLINE_EXCEEDED) for name in late]

    def _give_up(self, request_id: str, error: str | None) -> SequenceOutput:
        self._runner.cancel(request_id)
        self._forget(request_id)
        self._aborted += 1
        return SequenceOutput(request_id=request_id, token_ids=[], finish_reason="abort", error=error)

    def _output(self, progress: Progress) -> SequenceOutput:
        request = self._requests[progress.request_id]
        first = self._held[progress.request_id] == 0
        if first:
            self._prompt_tokens += len(request.prompt_tokens)
            self._held[progress.request_id] = len(request.prompt_tokens)
        self._held[progress.request_id] += len(progress.token_ids)
        self._completion_tokens += len(progress.token_ids)
        if progress.is_finished:
            self._forget(progress.request_id)
        return SequenceOutput(
            request_id=progress.request_id,
            token_ids=progress.token_ids,
            finish_reason=self._reason(request, progress),
            error=progress.error,
            started_at=time.monotonic() if first else None,
        )

    def _reason(self, request: GenerationRequest, progress: Progress) -> FinishReason | None:
        if progress.error is not None:
            return "error"
        if not progress.is_finished:
            return None
        ended = not request.sampling.ignore_eos and progress.token_ids[-1:] and progress.token_ids[-1] in self._eos_ids
        return "stop" if ended else "length"

    def _forget(self, request_id: str) -> None:
        del self._requests[request_id], self._held[request_id]

    def _stats_due(self) -> bool:
        return not self._requests or time.monotonic() - self._stats_sent_at >= STATS_INTERVAL_S

    def _stats(self) -> EngineStats:
        running = sum(held > 0 for held in self._held.values())
        return EngineStats(
            steps=self._steps,
            running=running,
            waiting=len(self._requests) - running,
            kv_tokens_used=sum(self._held.values()),
            kv_tokens_total=self._cache_tokens,
            prompt_tokens_computed=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            aborted=self._aborted,
            received=self._received,
        )


def load(config: EngineConfig, channel: Channel) -> tuple[Loop, EngineLoaded]:
    """Loads the model and finds out how it can be run.

    Raises:
        ModelLoadError: transformers doesn't load it, or the KV budget holds nothing.
    """
    path, dtype = Path(config.model_path), getattr(torch, config.dtype)
    if config.weights != "auto":
        raise ModelLoadError(f"weights {config.weights!r} work with our own families only: set weights to auto.")
    model = _load_model(path, dtype)
    cache_tokens = config.kv_cache_bytes // _token_bytes(model.config, dtype)
    if cache_tokens < PAGE_TOKENS:
        raise ModelLoadError(f"A KV cache of {config.kv_cache_bytes} bytes holds only {cache_tokens} tokens.")
    runner = choose_runner(
        model,
        cache_tokens=cache_tokens,
        max_running=config.max_running,
        step_tokens=config.prefill_chunk_tokens + config.max_running,
    )
    positions = getattr(model.config, "max_position_embeddings", None) or _UNBOUNDED_POSITIONS
    loaded = EngineLoaded(vocab_size=model.config.vocab_size, max_positions=positions, kv_tokens_total=cache_tokens)
    return Loop(runner, channel, frozenset(read_eos_ids(path)), cache_tokens), loaded


def _load_model(path: Path, dtype: torch.dtype) -> Any:
    refuse_pickles(str(path), (file.name for file in path.iterdir()))
    try:
        # no code from the model's folder, neither Python nor pickles
        model = transformers.AutoModelForCausalLM.from_pretrained(
            path, dtype=dtype, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise ModelLoadError(f"{path}: transformers does not load this model: {error}") from error
    return model.eval()


def _token_bytes(config: Any, dtype: torch.dtype) -> int:
    """Bytes of one token's keys and values in all layers."""
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    size: int = 2 * config.num_hidden_layers * kv_heads * head_dim * dtype.itemsize
    return size


if __name__ == "__main__":
    sys.exit(run_process(load))
