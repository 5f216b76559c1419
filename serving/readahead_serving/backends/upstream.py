"""Any OpenAI-compatible server as the engine: prompts go as token ids to its /v1/completions, text comes back."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx
import msgspec

from readahead_serving.engine.request import (
    EngineStats,
    FinishReason,
    GenerationDelta,
    GenerationRequest,
    SamplingParams,
    Usage,
)
from readahead_serving.errors import EngineBusy, EngineUnavailable, RequestRefused, ServingError

_CONNECT_S = 10.0
_PROBE_EVERY_S = 5.0
_FINISH_REASONS: dict[str, FinishReason] = {"stop": "stop", "length": "length"}


class UpstreamEngine:
    """Implements `backends.base.Engine` over HTTP. Make one with `start`.

    The upstream must run the model whose tokenizer made the prompts. It tells token counts only at the end of a
    request: until then `usage.completion_tokens` counts chunks, and `token_ids` is always empty.

    Args:
        base_url: Up to and including /v1.
        model: The model's name there.
        api_key: Sent as bearer key; empty for none.
    """

    def __init__(self, base_url: str, model: str, api_key: str = "") -> None:
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        # no read timeout: a long prefill is silent; the caller's deadline and disconnect end what takes too long
        timeout = httpx.Timeout(None, connect=_CONNECT_S)
        limits = httpx.Limits(max_connections=None)
        self._http = httpx.AsyncClient(base_url=base_url, headers=headers, timeout=timeout, limits=limits)
        self._model = model
        self._answers = False
        self._running = 0
        self._completion_tokens = 0
        self._prompt_tokens = 0
        self._finished = 0
        self._aborted = 0
        self._probing: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, base_url: str, model: str, api_key: str = "") -> UpstreamEngine:
        """Connects to an upstream.

        Raises:
            EngineUnavailable: It doesn't answer, or doesn't serve `model`.
        """
        engine = cls(base_url, model, api_key)
        await engine._probe()
        if not engine._answers:
            await engine.close()
            raise EngineUnavailable(f"{base_url} doesn't answer, or doesn't serve the model {model}.")
        engine._probing = asyncio.create_task(engine._probe_forever(), name="upstream probe")
        return engine

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
        """See the protocol. Closing it closes the upstream's connection, which aborts the request there.

        Raises:
            RequestRefused: Log probabilities are asked for, which need the upstream's token ids.
        """
        if request.sampling.logprobs is not None:
            raise RequestRefused(
                "logprobs: this model runs on another server, whose log probabilities are not passed on.",
                param="logprobs",
                code="unsupported_parameter",
            )
        self._running += 1
        finished = False
        try:
            async with contextlib.aclosing(self._deltas(request)) as deltas:
                async for delta in deltas:
                    finished = delta.finish_reason is not None
                    yield delta
        except httpx.HTTPError as error:
            self._answers = False
            raise EngineUnavailable(f"The upstream failed: {error or type(error).__name__}.") from error
        finally:
            self._running -= 1
            self._finished += finished
            self._aborted += not finished

    def stats(self) -> EngineStats:
        """Counts of this client; the upstream's batch and cache are its own."""
        return EngineStats(
            steps=self._finished,
            running=self._running,
            waiting=0,
            kv_tokens_used=0,
            kv_tokens_total=0,
            prompt_tokens_computed=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            aborted=self._aborted,
        )

    def is_ready(self) -> bool:
        return self._answers

    async def close(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        await self._http.aclose()

    async def _probe_forever(self) -> None:
        while True:
            await asyncio.sleep(_PROBE_EVERY_S)
            await self._probe()

    async def _probe(self) -> None:
        try:
            response = await self._http.get(f"/models/{self._model}", timeout=_CONNECT_S)
            self._answers = response.status_code == httpx.codes.OK
        except httpx.HTTPError:
            self._answers = False

    async def _deltas(self, request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
        """Holds the last delta back until the usage chunk behind it has come."""
        usage = Usage(prompt_tokens=len(request.prompt_tokens), completion_tokens=0)
        ending: FinishReason | None = None
        last_text = ""
        async with self._http.stream("POST", "/completions", json=_body(request, self._model)) as response:
            await _raise_for_status(response)
            async for event in _events(response):
                if event.get("usage"):
                    usage = _usage(event["usage"])
                for choice in event.get("choices") or ():
                    if choice.get("finish_reason"):
                        ending, last_text = _FINISH_REASONS.get(choice["finish_reason"], "error"), choice["text"]
                    elif choice["text"]:
                        usage = msgspec.structs.replace(usage, completion_tokens=usage.completion_tokens + 1)
                        yield GenerationDelta(
                            request_id=request.request_id, text=choice["text"], token_ids=[], usage=usage
                        )
        if ending is None:
            raise EngineUnavailable("The upstream ended its stream without a finish reason.")
        self._prompt_tokens += usage.prompt_tokens - usage.cached_tokens
        self._completion_tokens += usage.completion_tokens
        yield GenerationDelta(
            request_id=request.request_id, text=last_text, token_ids=[], usage=usage, finish_reason=ending
        )


def _body(request: GenerationRequest, model: str) -> dict[str, Any]:
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "prompt": request.prompt_tokens,
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    # what OpenAI's API lacks is sent only where it is wanted, since strict servers refuse fields they don't know
    optional = {
        "top_k": sampling.top_k or None,
        "min_p": sampling.min_p or None,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
        "ignore_eos": sampling.ignore_eos or None,
        "response_format": _response_format(sampling.json_schema),
        "structured_outputs": _structured_outputs(sampling),
        "logit_bias": {str(token): value for token, value in sampling.logit_bias} or None,
        "timeout": None if request.deadline is None else max(0.001, request.deadline - time.time()),
    }
    return body | {name: value for name, value in optional.items() if value is not None}


def _response_format(schema: str | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": msgspec.json.decode(schema)}}


def _structured_outputs(sampling: SamplingParams) -> dict[str, str] | None:
    """As vLLM calls it; its grammars are in the dialect of its own back end."""
    if sampling.regex is not None:
        return {"regex": sampling.regex}
    return None if sampling.grammar is None else {"grammar": sampling.grammar}


def _usage(usage: dict[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details") or {}
    return Usage(
        prompt_tokens=usage["prompt_tokens"],
        completion_tokens=usage["completion_tokens"],
        cached_tokens=details.get("cached_tokens") or 0,
    )


async def _raise_for_status(response: httpx.Response) -> None:
    if response.status_code == httpx.codes.OK:
        return
    raise _as_error(response.status_code, await response.aread(), response.headers)


def _as_error(status: int, body: bytes, headers: httpx.Headers) -> ServingError:
    try:
        error = msgspec.json.decode(body)["error"]
        message, param, code = str(error["message"]), error.get("param"), error.get("code")
    except (msgspec.DecodeError, KeyError, TypeError):
        message, param, code = f"The upstream answered {status}.", None, None
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return EngineBusy(message, _retry_after_s(headers))
    if status in (httpx.codes.BAD_REQUEST, httpx.codes.UNPROCESSABLE_ENTITY):
        return RequestRefused(message, param=param, code=code)
    return EngineUnavailable(message)


def _retry_after_s(headers: httpx.Headers) -> float:
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        with contextlib.suppress(KeyError, ValueError):
            return float(headers[name]) / unit
    return 1.0


async def _events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if data == "[DONE]":
            return
        if data:
            event = msgspec.json.decode(data, type=dict[str, Any])
            if "error" in event:
                raise EngineUnavailable(f"The upstream gave the request up: {event['error'].get('message')}")
            yield event
