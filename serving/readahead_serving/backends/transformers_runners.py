"""Two ways of running any causal language model that transformers loads.

transformers' continuous batching (`ContinuousBatchingManager`) computes all requests in one pass, but in version 5.24
it fails on models that ask the cache for its length, OPT, Bloom and Falcon among them. What it cannot run, or would
run wrong, is computed one request at a time, a token each in turn. `choose_runner` tries and decides.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import GenerationConfig, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from readahead_serving.engine.request import GenerationRequest, SamplingParams

PAGE_TOKENS = 32
"""Tokens of one page of transformers' KV cache."""
WAIT_S = 0.02
"""How long `poll` waits for something to happen, and so how long a new command may wait."""
_PROBE = [[5, 3, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6], [2, 7, 1, 8, 2]]
_PROBE_TOKENS = 4
_PROBE_S = 60.0
_NEAR_TIE = 0.05
"""Share of the logits' spread below which either of two tokens may win: the two ways add in different orders."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """What has become of one request since the last look."""

    request_id: str
    token_ids: list[int]
    is_finished: bool = False
    error: str | None = None


class Runner(Protocol):
    """Computes requests. After `cancel` a request is not heard of again."""

    def add(self, request: GenerationRequest, eos_ids: frozenset[int]) -> None: ...

    def cancel(self, request_id: str) -> None: ...

    def poll(self) -> list[Progress]:
        """Works or waits a moment; returns what came of it.

        Raises:
            RuntimeError: Nothing will be computed any more.
        """
        ...

    def close(self) -> None: ...


class ContinuousRunner:
    """transformers' continuous batching, in a thread of its own.

    Args:
        model: A causal language model of transformers.
        cache_tokens: Tokens that the KV cache holds.
        max_running: Requests computed at once at most.
        step_tokens: Tokens of one pass at most.
    """

    def __init__(self, model: Any, *, cache_tokens: int, max_running: int, step_tokens: int) -> None:
        # the three values are no defaults but what makes transformers build the processors that requests then set
        generation = GenerationConfig(do_sample=True, temperature=0.5, top_k=2, top_p=0.5, eos_token_id=-1)
        batching = ContinuousBatchingConfig(
            page_size=PAGE_TOKENS,
            num_blocks=max(1, cache_tokens // PAGE_TOKENS),
            max_batch_tokens=step_tokens,
            max_requests_per_batch=max_running,
            per_request_processors=True,
            use_async_batching=False,
            auto_switch_to_flash=False,
        )
        self._vocab_size = model.config.vocab_size
        self._manager = model.init_continuous_batching(
            generation_config=generation, continuous_batching_config=batching
        )
        self._sent: dict[str, int] = {}
        self._manager.start()

    def add(self, request: GenerationRequest, eos_ids: frozenset[int]) -> None:
        sampling = request.sampling
        greedy = sampling.temperature == 0
        self._sent[request.request_id] = 0
        self._manager.add_request(
            request.prompt_tokens,
            request.request_id,
            max_new_tokens=sampling.max_tokens,
            streaming=True,
            eos_token_id=sorted(eos_ids) or -1,
            temperature=1.0 if greedy else sampling.temperature,
            top_k=1 if greedy else sampling.top_k or self._vocab_size,
            top_p=1.0 if greedy else sampling.top_p,
        )

    def cancel(self, request_id: str) -> None:
        if self._sent.pop(request_id, None) is not None:
            self._manager.cancel_request(request_id)

    def poll(self) -> list[Progress]:
        if not self._manager.is_running():
            raise RuntimeError("transformers' continuous batching has stopped")
        progress = []
        wait = WAIT_S
        while (output := self._manager.get_result(timeout=wait)) is not None:
            wait = 0.0001  # the queue takes no zero
            sent = self._sent.get(output.request_id)
            if sent is None:
                continue
            self._sent[output.request_id] = len(output.generated_tokens)
            if output.is_finished():
                del self._sent[output.request_id]
            new = output.generated_tokens[sent:]
            progress.append(Progress(output.request_id, new, output.is_finished(), output.error))
        return progress

    def close(self) -> None:
        self._manager.stop(hard_stop=True, timeout=_PROBE_S)


@dataclass(slots=True)
class _Running:
    request: GenerationRequest
    eos_ids: frozenset[int]
    pending: list[int]
    """Tokens that the model has not seen."""
    cache: Any = None
    generated: list[int] = field(default_factory=list)


class InterleavedRunner:
    """Each request with a cache of its own, a token each in turn: right for every model, fast for one request."""

    def __init__(self, model: Any, *, max_running: int) -> None:
        self._model = model
        self._max_running = max_running
        self._requests: dict[str, _Running] = {}

    def add(self, request: GenerationRequest, eos_ids: frozenset[int]) -> None:
        self._requests[request.request_id] = _Running(request, eos_ids, list(request.prompt_tokens))

    def cancel(self, request_id: str) -> None:
        self._requests.pop(request_id, None)

    def poll(self) -> list[Progress]:
        if not self._requests:
            time.sleep(WAIT_S)
        return [self._advance(one) for one in list(self._requests.values())[: self._max_running]]

    def close(self) -> None:
        self._requests.clear()

    @torch.inference_mode()
    def _advance(self, running: _Running) -> Progress:
        request_id, sampling = running.request.request_id, running.request.sampling
        output = self._model(torch.tensor([running.pending]), past_key_values=running.cache, use_cache=True)
        running.cache = output.past_key_values
        token = choose_token(output.logits[:, -1].float(), sampling)
        running.pending = [token]
        running.generated.append(token)
        finished = token in running.eos_ids or len(running.generated) >= sampling.max_tokens
        if finished:
            del self._requests[request_id]
        return Progress(request_id, [token], finished)


def choose_token(logits: Tensor, sampling: SamplingParams) -> int:
    """Samples from (1, vocab) logits by temperature, top-k and top-p, as transformers cuts them."""
    if sampling.temperature == 0:
        return int(logits.argmax())
    unused: Any = None
    scores = TemperatureLogitsWarper(float(sampling.temperature))(unused, logits)
    if sampling.top_k:
        scores = TopKLogitsWarper(sampling.top_k)(unused, scores)
    if sampling.top_p < 1:
        scores = TopPLogitsWarper(sampling.top_p)(unused, scores)
    return int(torch.multinomial(scores.softmax(-1), 1))


def choose_runner(model: Any, *, cache_tokens: int, max_running: int, step_tokens: int) -> Runner:
    """Continuous batching where it computes what the model itself does, else one request at a time."""
    prompts = [[token % model.config.vocab_size for token in prompt] for prompt in _PROBE]
    attention = model.config._attn_implementation
    runner = ContinuousRunner(model, cache_tokens=cache_tokens, max_running=max_running, step_tokens=step_tokens)
    continuations = _continue(runner, prompts)
    if continuations is not None:
        # the model's own pass, for which it must not attend to pages
        model.set_attn_implementation(attention)
        if all(_agrees(model, *pair) for pair in zip(prompts, continuations, strict=True)):
            return runner
    runner.close()
    model.set_attn_implementation(attention)
    log.warning("transformers cannot batch %s continuously: requests take turns", model.config.model_type)
    return InterleavedRunner(model, max_running=max_running)


def _continue(runner: Runner, prompts: list[list[int]]) -> list[list[int]] | None:
    """Greedy continuations; None if they fail or don't come."""
    sampling = SamplingParams(max_tokens=_PROBE_TOKENS, temperature=0)
    tokens: dict[str, list[int]] = {f"probe-{number}": [] for number in range(len(prompts))}
    for name, prompt in zip(tokens, prompts, strict=True):
        runner.add(GenerationRequest(request_id=name, prompt_tokens=prompt, sampling=sampling), frozenset())
    end = time.monotonic() + _PROBE_S
    while time.monotonic() < end and any(len(one) < _PROBE_TOKENS for one in tokens.values()):
        try:
            progress = runner.poll()
        except RuntimeError:
            return None
        if any(one.error for one in progress):
            return None
        for one in progress:
            tokens[one.request_id] += one.token_ids
    return list(tokens.values()) if all(len(one) == _PROBE_TOKENS for one in tokens.values()) else None


@torch.inference_mode()
def _agrees(model: Any, prompt: list[int], continuation: list[int]) -> bool:
    logits = model(torch.tensor([prompt + continuation]), use_cache=False).logits[0, len(prompt) - 1 : -1].float()
    chosen = logits.gather(-1, torch.tensor(continuation).unsqueeze(-1)).squeeze(-1)
    return bool((logits.amax(-1) - chosen <= _NEAR_TIE * (logits.amax(-1) - logits.amin(-1))).all())
