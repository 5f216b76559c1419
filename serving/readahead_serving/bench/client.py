"""Sends load to any OpenAI-compatible server and times what comes back.

TTFT runs from sending the request to the first chunk that carries text. Tokens are counted by the server's usage, so
that chunks which bundle tokens count right.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import httpx
import msgspec

from readahead_serving.errors import BenchFailed

_TIMEOUT = httpx.Timeout(600.0, connect=10.0)


@dataclass(frozen=True, slots=True)
class Target:
    """A server and the model on it that is asked."""

    url: str
    """Up to and including /v1."""
    model: str
    api_key: str


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """One request of a load: greedy and streamed."""

    messages: Sequence[dict[str, str]]
    max_tokens: int
    cancel_after_s: float | None = None
    """Seconds after which the client hangs up; None for never."""


def user_message(text: str) -> list[dict[str, str]]:
    """A conversation of one message."""
    return [{"role": "user", "content": text}]


@dataclass(slots=True)
class Timing:
    """One request as its client saw it. Times are seconds since it was sent."""

    sent_at: float = 0.0
    """Monotonic clock."""
    text: str = ""
    was_cancelled: bool = False
    """Whether the client hung up on purpose before the end."""
    text_at: list[float] = field(default_factory=list)
    """When each chunk with text came."""
    done_at: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    error: str | None = None
    """What went wrong; None for a request that finished."""

    @property
    def gaps(self) -> list[float]:
        return [after - before for before, after in zip(self.text_at, self.text_at[1:], strict=False)]


class LoadClient:
    """One benchmark's connection pool. An async context manager."""

    def __init__(self, target: Target) -> None:
        self._target = target
        headers = {"authorization": f"Bearer {target.api_key}"} if target.api_key else {}
        limits = httpx.Limits(max_connections=None)
        self._http = httpx.AsyncClient(headers=headers, timeout=_TIMEOUT, limits=limits)

    async def __aenter__(self) -> LoadClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def send(self, request: LoadRequest) -> Timing:
        """Sends one request and times what comes back; failures are told in the timing."""
        timing = Timing(sent_at=time.monotonic())
        try:
            async with asyncio.timeout(request.cancel_after_s):
                async for event in self._events(request):
                    _take_in(event, timing, time.monotonic() - timing.sent_at)
        except TimeoutError:
            timing.was_cancelled = True
        except BenchFailed as error:
            timing.error = str(error)
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            timing.error = f"{type(error).__name__}: {error}"
        timing.done_at = time.monotonic() - timing.sent_at
        if timing.error is None and not timing.text_at and not timing.was_cancelled:
            timing.error = "no text came"
        return timing

    async def _events(self, request: LoadRequest) -> AsyncIterator[dict[str, Any]]:
        body = {
            "model": self._target.model,
            "messages": list(request.messages),
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        async with self._http.stream("POST", f"{self._target.url}/chat/completions", json=body) as response:
            if response.status_code != httpx.codes.OK:
                raise BenchFailed(f"HTTP {response.status_code} {_error_code(await response.aread())}")
            async for line in response.aiter_lines():
                if line == "data: [DONE]":
                    return
                if line.startswith("data:"):
                    yield msgspec.json.decode(line.removeprefix("data:"), type=dict[str, Any])
        raise BenchFailed("the stream ended without [DONE]")


def _error_code(body: bytes) -> str:
    """OpenAI's code or message, so that failures of one kind are counted together."""
    try:
        error = msgspec.json.decode(body)["error"]
        return str(error.get("code") or error["message"])
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return body[:80].decode(errors="replace")


def _take_in(event: dict[str, Any], timing: Timing, now: float) -> None:
    if "error" in event:
        raise BenchFailed(str(event["error"]))
    for choice in islice(event.get("choices") or (), 1):
        if text := choice["delta"].get("content"):
            timing.text_at.append(now)
            timing.text += text
    if usage := event.get("usage"):
        timing.prompt_tokens = usage["prompt_tokens"]
        timing.completion_tokens = usage["completion_tokens"]
        timing.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0


async def first_model(url: str, api_key: str) -> str:
    """The first model that a server lists.

    Raises:
        BenchFailed: It can't be asked, or lists none.
    """
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with httpx.AsyncClient(headers=headers, timeout=_TIMEOUT) as http:
            listed = (await http.get(f"{url}/models")).raise_for_status().json()["data"]
    except (httpx.HTTPError, ValueError, KeyError) as error:
        raise BenchFailed(f"Can't list the models of {url}: {error}.") from error
    if not listed:
        raise BenchFailed(f"{url} lists no models; wait until it is ready.")
    return str(listed[0]["id"])
