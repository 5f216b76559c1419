"""OpenAI's error envelope: every failure leaves the server in this one shape.

SDKs retry 408, 409, 429 and 5xx by themselves, so a failure that would only repeat itself says `x-should-retry: false`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from readahead_serving.errors import (
    DeadlineExceeded,
    EngineBusy,
    EngineUnavailable,
    ModelNotFound,
    PackNotFound,
    ServingError,
    UserError,
)
from readahead_serving.metrics import ServingMetrics

logger = logging.getLogger(__name__)

_NO_RETRY = {"x-should-retry": "false"}
_CLIENT_CLOSED_REQUEST = 499
_STATUS_CODES = {401: "invalid_api_key", 404: "not_found", 413: "request_too_large"}
_INVALID_JSON = "invalid_json"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_VALIDATION_CODES = {"missing": "missing_required_parameter", "unsupported_parameter": "unsupported_parameter"}


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure as the client sees it."""

    status: int
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def envelope(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.envelope(), self.status, headers=dict(self.headers))


def retry_after(seconds: float) -> dict[str, str]:
    """Both spellings that SDKs obey: whole seconds for everyone, milliseconds for OpenAI's."""
    return {"retry-after": str(max(1, math.ceil(seconds))), "retry-after-ms": str(max(1, math.ceil(seconds * 1000)))}


def describe(error: ServingError) -> Failure:
    """Says which status and words a typed error becomes."""
    match error:
        case ModelNotFound() | PackNotFound():
            return Failure(404, error.message, param=error.param, code=error.code)
        case UserError():
            return Failure(400, error.message, param=error.param, code=error.code)
        case EngineBusy():
            headers = retry_after(error.retry_after_s)
            return Failure(429, str(error), "rate_limit_error", code="engine_busy", headers=headers)
        case EngineUnavailable():
            headers = retry_after(error.retry_after_s)
            return Failure(503, str(error), "server_error", code="engine_unavailable", headers=headers)
        case DeadlineExceeded():
            return Failure(408, str(error), "timeout_error", "timeout", "deadline_exceeded", _NO_RETRY)
        case _:
            return Failure(500, str(error), "server_error", code="generation_failed", headers=_NO_RETRY)


def param_path(location: Sequence[int | str]) -> str | None:
    """The path of a field in OpenAI's notation: ("messages", 0, "content") is messages[0].content."""
    path = ""
    for part in location:
        if isinstance(part, str) and (not part.isidentifier() or part in ("str", "int")):
            break  # pydantic's name for a branch of a union, which is no field
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.lstrip(".") or None


def describe_validation(error: RequestValidationError) -> Failure:
    """Names the first field at fault; the rest mostly follow from it."""
    first = error.errors()[0]
    kind, where = str(first["type"]), tuple(first["loc"])[1:]
    if kind == "json_invalid":
        message = f"The request body isn't valid JSON: {first['ctx']['error']} at character {where[0]}."
        return Failure(400, message, code=_INVALID_JSON)
    if not where:
        return Failure(400, "The request body must be a JSON object, sent with Content-Type: application/json.")
    param = param_path(where)
    message = str(first["msg"]).removeprefix("Value error, ")
    if kind == "missing":
        message = "Missing required parameter"
    return Failure(400, f"{param}: {message}.", param=param, code=_VALIDATION_CODES.get(kind, "invalid_value"))


def _is_served(request: Request, method: str) -> bool:
    scope = {**request.scope, "method": "GET" if method == "HEAD" else method}
    return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)


class ErrorHandlers:
    """Turns whatever a request raises into its response, and counts it."""

    def __init__(self, metrics: ServingMetrics) -> None:
        self._rejected = metrics.rejected

    def install(self, app: FastAPI) -> None:
        """Makes every failure of `app` leave in OpenAI's envelope."""
        app.add_exception_handler(ServingError, self._on_serving_error)
        app.add_exception_handler(RequestValidationError, self._on_validation_error)
        app.add_exception_handler(HTTPException, self._on_http_error)
        app.add_exception_handler(ClientDisconnect, self._on_disconnect)
        app.add_exception_handler(Exception, self._on_bug)

    def _answer(self, failure: Failure) -> Response:
        self._rejected.labels(failure.code or "other").inc()
        return failure.response()

    async def _on_serving_error(self, _request: Request, error: Exception) -> Response:
        assert isinstance(error, ServingError)
        failure = describe(error)
        if failure.status >= 500:
            logger.warning("Request failed: %s", error)
        return self._answer(failure)

    async def _on_validation_error(self, _request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return self._answer(describe_validation(error))

    async def _on_http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        match error.status_code:
            case 405:
                return self._on_wrong_method(request)
            case 404:
                message = f"{request.method} {request.url.path} isn't served here; see GET /openapi.json for what is."
            case 400:  # FastAPI's word for a body that can't be decoded
                return self._answer(Failure(400, "The request body isn't JSON in UTF-8.", code=_INVALID_JSON))
            case _:
                message = error.detail
        code = _STATUS_CODES.get(error.status_code)
        return self._answer(Failure(error.status_code, message, code=code, headers=error.headers or {}))

    def _on_wrong_method(self, request: Request) -> Response:
        """What the path takes, by all its routes (RFC 9110, section 15.5.6); OPTIONS asks for just that."""
        allow = ", ".join(method for method in _METHODS if _is_served(request, method))
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": allow})
        message = f"{request.url.path} takes {allow}, not {request.method}."
        return self._answer(Failure(405, message, code="method_not_allowed", headers={"allow": allow}))

    async def _on_disconnect(self, _request: Request, _error: Exception) -> Response:
        return Response(status_code=_CLIENT_CLOSED_REQUEST)

    async def _on_bug(self, request: Request, _error: Exception) -> Response:
        # Starlette logs the traceback and answers outside our middleware, so the request id is put on here.
        request_id = getattr(request.state, "request_id", "")
        headers = {**_NO_RETRY, "x-request-id": request_id}
        message = f"The server failed on this request; its log says why under {request_id}."
        return self._answer(Failure(500, message, "server_error", code="internal_error", headers=headers))
