"""The one place where errors become OpenAI's envelope."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from readahead_agents import errors as agent
from readahead_platform.errors import ApiError
from readahead_retrieval import errors as retrieval

_log = logging.getLogger(__name__)
_RETRY_AFTER_S = 2.0


def envelope(error: ApiError) -> dict[str, Any]:
    """The body that OpenAI's SDKs parse."""
    return {
        "error": {
            "message": error.message,
            "type": error.error_type,
            "param": error.param,
            "code": error.code,
        }
    }


def error_response(error: ApiError) -> JSONResponse:
    """The envelope with its status, and what tells SDKs whether to retry."""
    headers: dict[str, str] = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
        headers["retry-after-ms"] = str(round(error.retry_after_s * 1000))
    elif error.status >= 500:
        headers["x-should-retry"] = "false"
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(envelope(error), error.status, headers)


def _bad_request(code: str, param: str | None = None) -> Callable[[Any], ApiError]:
    return lambda error: ApiError(400, error.message, param=param, code=code)


def _unavailable(code: str) -> Callable[[Any], ApiError]:
    def convert(error: Any) -> ApiError:
        retry_after_s = getattr(error, "retry_after_s", None) or _RETRY_AFTER_S
        return ApiError(503, error.message, error_type="server_error", code=code, retry_after_s=retry_after_s)

    return convert


def _document_error(error: retrieval.DocumentError) -> ApiError:
    """Only where the same bytes may succeed later is it worth a retry."""
    if error.retryable:
        return _unavailable(error.code)(error)
    return ApiError(400, error.message, param="file", code=error.code)


def _refused(error: agent.LanguageModelRefused) -> ApiError:
    """The model server's own words; what it blames on us (its 401, its 5xx) is no fault of the caller."""
    if error.status in {400, 404, 413, 422}:
        return ApiError(error.status, error.message, param=error.param, code=error.code)
    if error.status == 429:
        kind = "rate_limit_error"
        return ApiError(429, error.message, error_type=kind, code=error.code, retry_after_s=_RETRY_AFTER_S)
    return _server_error(502, f"The LLM server refused: {error.message}", error.code)


def _server_error(status: int, message: str, code: str | None) -> ApiError:
    return ApiError(status, message, error_type="server_error", code=code)


_CONVERTERS: Mapping[type[Exception], Callable[[Any], ApiError]] = {
    ApiError: lambda error: error,
    retrieval.NotFound: lambda error: ApiError(404, error.message, code="not_found"),
    retrieval.AlreadyExists: _bad_request("already_exists", "name"),  # not 409: SDKs retry that
    retrieval.InvalidName: _bad_request("invalid_name", "name"),
    retrieval.DocumentError: _document_error,
    retrieval.EmptyKnowledgeBase: _bad_request("knowledge_base_empty", "model"),
    retrieval.QueryError: _bad_request("invalid_query", "query"),
    retrieval.EmbedderUnavailable: _unavailable("embedder_unavailable"),
    retrieval.EmbedderRefused: lambda error: _server_error(500, error.message, "embedder_refused"),
    retrieval.InvalidState: _bad_request("invalid_state"),
    retrieval.KnowledgeBaseExpired: _bad_request("knowledge_base_expired"),
    retrieval.StorageFull: lambda error: _server_error(507, error.message, "disk_full"),
    retrieval.Busy: _unavailable("busy"),
    retrieval.IndexDamaged: _unavailable("index_rebuilding"),
    agent.LanguageModelUnavailable: _unavailable("model_unavailable"),
    agent.LanguageModelRefused: _refused,
    agent.BudgetExceeded: _bad_request("budget_exceeded"),
    agent.ToolsetUnavailable: _unavailable("tools_unavailable"),
    agent.PlanInvalid: lambda error: _server_error(500, error.message, "plan_invalid"),
    RequestValidationError: lambda error: _invalid(error.errors()),
    ValidationError: lambda error: _invalid(error.errors()),
    HTTPException: lambda error: _http(error),
}


def to_api_error(error: BaseException) -> ApiError:
    """Any exception as the error that a client sees; what nobody foresaw keeps its details in the log."""
    for kind in type(error).__mro__:
        if kind in _CONVERTERS:
            return _CONVERTERS[kind](error)
    _log.error("Unforeseen error", exc_info=error)
    return _server_error(500, "Something went wrong here; the log tells what.", "internal_error")


def _invalid(errors: Any) -> ApiError:
    first = errors[0]
    location = [str(part) for part in first["loc"] if part not in {"body", "query", "path"}]
    param = ".".join(location) or None
    message = str(first["msg"]).removeprefix("Value error, ")
    return ApiError(400, f"{param}: {message}." if param else f"{message}.", param=param, code="invalid_value")


def _http(error: HTTPException) -> ApiError:
    codes = {404: "unknown_url", 405: "method_not_allowed", 413: "body_too_large"}
    return ApiError(error.status_code, str(error.detail), code=codes.get(error.status_code, "invalid_request"))


def install_error_handlers(app: FastAPI) -> None:
    """Makes every error leave in the envelope, those of the framework too."""

    async def handle(_request: Request, error: Exception) -> JSONResponse:
        return error_response(to_api_error(error))

    for kind in (*_CONVERTERS, Exception):
        app.add_exception_handler(kind, handle)
