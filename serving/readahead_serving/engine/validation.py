"""Checks a request before it comes near the engine: a value that the engine can't serve must never reach it."""

from __future__ import annotations

import math

from readahead_serving.engine.request import GenerationRequest, SamplingParams
from readahead_serving.errors import ContextLengthExceeded, RequestRefused

MAX_STOPS = 16
MAX_STOP_CHARACTERS = 1024
MAX_TOP_LOGPROBS = 20
MAX_BIASED_TOKENS = 1024


def check_request(request: GenerationRequest, *, vocab_size: int, window: int) -> None:
    """Refuses what can never be served.

    Args:
        request: As it came.
        vocab_size: Token ids must be below this.
        window: Tokens of prompt and completion together at most.

    Raises:
        RequestRefused: The prompt is empty, a token id does not exist or a sampling parameter is out of its range.
        ContextLengthExceeded: Prompt and completion together are too long.
    """
    prompt, sampling = request.prompt_tokens, request.sampling
    if not prompt:
        raise RequestRefused("The prompt is empty: give it at least one token.", param="prompt", code="empty_prompt")
    if min(prompt) < 0 or max(prompt) >= vocab_size:
        wrong = min(prompt) if min(prompt) < 0 else max(prompt)
        raise _refusal("prompt", f"token id {wrong} is not in the model's vocabulary of {vocab_size}")
    check_sampling(sampling)
    outside = next((token for token, _ in sampling.logit_bias if not 0 <= token < vocab_size), None)
    if outside is not None:
        raise _refusal("logit_bias", f"token id {outside} is not in the model's vocabulary of {vocab_size}")
    if len(prompt) + sampling.max_tokens > window:
        raise ContextLengthExceeded(limit=window, prompt_tokens=len(prompt), completion_tokens=sampling.max_tokens)


def check_limits(request: GenerationRequest, *, max_prompt_tokens: int, max_completion_tokens: int) -> None:
    """Refuses what this server allows no single request, `RequestRefused`; 0 is no limit of its own."""
    prompt, completion = len(request.prompt_tokens), request.sampling.max_tokens
    if 0 < max_prompt_tokens < prompt:
        raise RequestRefused(
            f"The prompt has {prompt} tokens, and this server takes {max_prompt_tokens} at most: shorten it.",
            param="prompt",
            code="prompt_too_long",
        )
    if 0 < max_completion_tokens < completion:
        raise _refusal("max_tokens", f"{completion} is over the {max_completion_tokens} that this server gives")


def check_sampling(sampling: SamplingParams) -> None:
    """Refuses parameters out of range, `RequestRefused` naming the parameter and its range."""
    _check_range("max_tokens", sampling.max_tokens, 1, math.inf)
    _check_range("temperature", sampling.temperature, 0, 100)
    _check_range("top_k", sampling.top_k, 0, 2**31 - 1)
    _check_range("min_p", sampling.min_p, 0, 1)
    _check_range("presence_penalty", sampling.presence_penalty, -2, 2)
    _check_range("frequency_penalty", sampling.frequency_penalty, -2, 2)
    if not 0 < sampling.top_p <= 1:
        raise _refusal("top_p", f"{sampling.top_p} is not above 0 and at most 1")
    _check_stops(sampling.stop)
    _check_range("logprobs", sampling.logprobs or 0, 0, MAX_TOP_LOGPROBS)
    _check_bias(sampling.logit_bias)
    if sum(text is not None for text in (sampling.json_schema, sampling.regex, sampling.grammar)) > 1:
        raise _refusal("structured_outputs", "a completion follows one schema, expression or grammar, not several")


def _check_bias(bias: tuple[tuple[int, float], ...]) -> None:
    if len(bias) > MAX_BIASED_TOKENS:
        raise _refusal("logit_bias", f"{len(bias)} tokens are more than {MAX_BIASED_TOKENS}")
    for _token, value in bias:
        _check_range("logit_bias", value, -100, 100)


def _check_stops(stops: tuple[str, ...]) -> None:
    if len(stops) > MAX_STOPS:
        raise _refusal("stop", f"{len(stops)} stop strings are more than {MAX_STOPS}")
    for stop in stops:
        if not 1 <= len(stop) <= MAX_STOP_CHARACTERS or not _is_utf8(stop):
            raise _refusal("stop", f"a stop string needs 1 to {MAX_STOP_CHARACTERS} characters of valid Unicode")


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # NaN fails too
        raise _refusal(
            name, f"{value} is not between {low} and {high}" if high < math.inf else f"{value} is below {low}"
        )


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refusal(param: str, problem: str) -> RequestRefused:
    return RequestRefused(f"{param}: {problem}.", param=param, code="invalid_value")
