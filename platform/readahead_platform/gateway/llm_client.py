"""The LLM server as the gateway sees it: requests passed through, readiness, models."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from readahead_platform.errors import ApiError
from readahead_platform.gateway.fresh_connection import FreshConnectionTransport
from readahead_platform.gateway.salts import salt_headers

_MAX_ANSWER_BYTES = 32 << 20
_PROBE_TIMEOUT_S = 3.0
_CONNECT_TIMEOUT_S = 5.0
_LAST_WORDS_S = 10.0
"""Seconds that the LLM server may take to say that a request's own time is over."""
_LIMITS = httpx.Limits(max_connections=512, max_keepalive_connections=32)
_RETRY_AFTER_S = 2.0
_PASSED_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the LLM server is waited for, in seconds."""

    idle_s: float
    """Without a byte on a stream, which has heartbeats, or for what is answered at once."""
    answer_s: float
    """For a whole answer that is not streamed."""

    def for_answer(self, body: Mapping[str, Any]) -> float:
        """A request that limits itself is ended by the LLM server, whose answer is waited for."""
        own = body.get("timeout")
        if isinstance(own, bool) or not isinstance(own, int | float) or own <= 0:
            return self.answer_s
        return self.answer_s if own >= self.answer_s else min(own + _LAST_WORDS_S, self.answer_s)


class UpstreamAnswer:
    """What the LLM server said: status, the headers worth passing on, and the body."""

    def __init__(self, response: httpx.Response, body: bytes) -> None:
        self.status = response.status_code
        self.headers = {name: response.headers[name] for name in _PASSED_HEADERS if name in response.headers}
        self.content_type = response.headers.get("content-type", "application/json")
        self.body = body

    def unless_refused(self) -> UpstreamAnswer:
        """This answer; a model that there is none of is raised, as only the gateway knows all models."""
        if self.status == 404:
            raise _refusal(self.status, self.headers, self.body)
        return self


class LlmClient:
    """Passes OpenAI requests on. Closing what it returns, or cancelling, ends the work at the LLM server."""

    def __init__(self, base_url: str, api_key: str, patience: Patience) -> None:
        self._patience = patience
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=httpx.Timeout(patience.idle_s, connect=_CONNECT_TIMEOUT_S),
            transport=FreshConnectionTransport(httpx.AsyncHTTPTransport(limits=_LIMITS)),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, tenant: str | None = None
    ) -> UpstreamAnswer:
        """One exchange, on behalf of a tenant whose cache it may use.

        Raises:
            ApiError: 503 when the LLM server does not answer, 504 when its answer takes too long.
        """
        read_s = self._patience.idle_s if body is None else self._patience.for_answer(body)
        async with self._exchange(method, path, body, tenant, read_s) as response:
            return UpstreamAnswer(response, await _read(response))

    async def stream(self, path: str, body: Mapping[str, Any], *, tenant: str) -> AsyncIterator[bytes]:
        """The frames of a streamed answer as they come.

        Raises:
            ApiError: Before the first frame, what the LLM server refused; at any time, 503 when it is gone.
        """
        async with self._exchange("POST", path, body, tenant, self._patience.idle_s) as response:
            if response.status_code != 200:
                raise _refusal(response.status_code, response.headers, await _read(response))
            async for line in response.aiter_lines():
                if line.startswith("data:"):  # its own heartbeats end here: the gateway has its own
                    yield f"{line}\n\n".encode()

    async def list_models(self) -> list[dict[str, Any]]:
        """The entries of /v1/models."""
        answer = await self.request("GET", "/v1/models")
        if answer.status != 200:
            raise _unavailable("The LLM server does not list its models.")
        entries: list[dict[str, Any]] = json.loads(answer.body)["data"]
        return entries

    async def is_ready(self) -> bool:
        """Whether it says that it can answer now."""
        try:
            response = await self._http.get("/health/ready", timeout=_PROBE_TIMEOUT_S)
        except httpx.HTTPError:
            return False
        return response.status_code == 200

    @contextlib.asynccontextmanager
    async def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None, tenant: str | None, read_s: float
    ) -> AsyncIterator[httpx.Response]:
        headers = salt_headers(tenant) if tenant is not None else {}
        timeout = httpx.Timeout(self._patience.idle_s, connect=_CONNECT_TIMEOUT_S, read=read_s)
        try:
            async with self._http.stream(method, path, json=body, headers=headers, timeout=timeout) as response:
                yield response
        except httpx.ReadTimeout as error:
            raise _too_slow(read_s) from error
        except httpx.TimeoutException as error:
            raise _unavailable("The LLM server has been silent for too long.") from error
        except httpx.HTTPError as error:
            raise _unavailable("The LLM server does not answer; it may be starting again.") from error


def _unavailable(message: str) -> ApiError:
    return ApiError(503, message, error_type="server_error", code="model_unavailable", retry_after_s=_RETRY_AFTER_S)


def _too_slow(waited_s: float) -> ApiError:
    """No status to try again on: the same request would take as long again."""
    message = (
        f"The LLM server has not answered within {waited_s:g} seconds. Ask for fewer tokens or with `stream`; the "
        "operator's limits are gateway.llm_answer_timeout_s and, for streams, gateway.llm_idle_timeout_s."
    )
    return ApiError(504, message, error_type="server_error", code="answer_timeout")


async def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _MAX_ANSWER_BYTES:
            message = "The LLM server's answer is too long."
            raise ApiError(502, message, error_type="server_error", code="answer_too_long")
    return bytes(body)


def _refusal(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    try:
        error = json.loads(body)["error"]
        message, kind, param, code = (error.get(name) for name in ("message", "type", "param", "code"))
    except (ValueError, KeyError, TypeError, AttributeError):
        message, kind, param, code = f"The LLM server answered {status}.", "server_error", None, None
    retry_after = headers.get("retry-after", "")
    return ApiError(
        status,
        str(message),
        error_type=str(kind),
        param=param,
        code=code,
        retry_after_s=float(retry_after) if retry_after.replace(".", "", 1).isdigit() else None,
    )
