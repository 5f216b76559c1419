"""The one place where errors become OpenAI's envelope."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from readahead_agents import errors as agent
from readahead_platform.errors import ApiError
from readahead_retrieval import errors as retrieval

_log = logging.getLogger(__name__)
_RETRY_AFTER_S = 2.0
_RETRIED = frozenset({408, 409, 429})
"""Beside 5xx, the statuses on which SDKs try again by themselves."""
_BRANCHES = frozenset({"str", "int", "float", "bool", "dict", "list"})


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
    headers = dict(error.headers)
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
        headers["retry-after-ms"] = str(round(error.retry_after_s * 1000))
    elif error.status in _RETRIED or error.status >= 500:
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


def _too_many(message: str) -> ApiError:
    kind = "rate_limit_error"
    return ApiError(429, message, error_type=kind, code="too_many_runs", retry_after_s=_RETRY_AFTER_S)


def _embedder(error: retrieval.EmbedderUnavailable | retrieval.EmbedderRefused) -> ApiError:
    """Its own words name an address inside, and stay in the log."""
    _log.error("The embedding model failed: %s", error.message)
    if isinstance(error, retrieval.EmbedderRefused):
        return _server_error(500, "The embedding model refuses its work; the log tells why.", "embedder_refused")
    message = "The embedding model does not answer now; try again."
    return ApiError(503, message, error_type="server_error", code="embedder_unavailable", retry_after_s=_RETRY_AFTER_S)


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
    retrieval.EmbedderUnavailable: lambda error: _embedder(error),
    retrieval.EmbedderRefused: lambda error: _embedder(error),
    retrieval.InvalidState: _bad_request("invalid_state"),
    retrieval.KnowledgeBaseExpired: _bad_request("knowledge_base_expired"),
    retrieval.StorageFull: lambda error: _server_error(507, error.message, "disk_full"),
    retrieval.Busy: _unavailable("busy"),
    retrieval.IndexDamaged: _unavailable("index_rebuilding"),
    agent.LanguageModelUnavailable: _unavailable("model_unavailable"),
    agent.LanguageModelRefused: _refused,
    agent.BudgetExceeded: _bad_request("budget_exceeded"),
    agent.ToolsetUnavailable: _unavailable("tools_unavailable"),
    agent.RunNotFound: lambda error: ApiError(404, error.message, code="not_found"),
    agent.TooManyRuns: lambda error: _too_many(error.message),
    agent.ConversationNotFound: lambda error: ApiError(404, error.message, code="not_found"),
    agent.AlreadyDecided: _bad_request("approval_request_decided", "input"),
    agent.ItemExists: _bad_request("duplicate_item", "input"),
    agent.ConversationFull: _bad_request("conversation_full", "conversation"),
    agent.PlanInvalid: _bad_request("plan_invalid", "plan"),
    RequestValidationError: lambda error: _invalid_request(error),
    ValidationError: lambda error: _invalid_field(error.errors()[0], error.errors()[0]["loc"]),
    OperationalError: lambda error: _storage(error),
    OSError: lambda error: _disk(error),
    HTTPException: lambda error: _http(error),
}


def to_api_error(error: BaseException) -> ApiError:
    """Any exception as the error that a client sees; what nobody foresaw keeps its details in the log."""
    for kind in type(error).__mro__:
        if kind in _CONVERTERS:
            return _CONVERTERS[kind](error)
    return _unforeseen(error)


def _unforeseen(error: BaseException) -> ApiError:
    _log.error("Unforeseen error", exc_info=error)
    return _server_error(500, "Something went wrong here; the log tells what.", "internal_error")


def _invalid_request(error: RequestValidationError) -> ApiError:
    """Names the first field at fault; the rest mostly follow from it."""
    first = error.errors()[0]
    source, *where = first["loc"]
    if first["type"] == "json_invalid":
        message = f"The request body is not valid JSON: {first['ctx']['error']} at character {where[0]}."
        return ApiError(400, message, code="invalid_json")
    if source == "body" and not where:
        message = "The request body must be a JSON object, sent with Content-Type: application/json."
        return ApiError(400, message, code="invalid_value")
    return _invalid_field(first, where)


def _invalid_field(first: Any, where: Sequence[int | str]) -> ApiError:
    param = _param(where)
    message = str(first["msg"]).removeprefix("Value error, ")
    return ApiError(400, f"{param}: {message}." if param else f"{message}.", param=param, code="invalid_value")


def _param(where: Sequence[int | str]) -> str | None:
    """The path of a field in OpenAI's notation: ("messages", 0, "content") is messages[0].content."""
    path = ""
    for part in where:
        if isinstance(part, str) and (not part.isidentifier() or part in _BRANCHES):
            break  # pydantic's name for a branch of a union, which is no field
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.lstrip(".") or None


def _http(error: HTTPException) -> ApiError:
    match error.__cause__:
        case OSError() as cause:  # a form is written to disk while it arrives
            return to_api_error(cause)
        case RecursionError():
            return ApiError(400, "The request body is nested too deeply.", code="invalid_json")
        case UnicodeDecodeError():
            return ApiError(400, "The request body is not UTF-8.", code="invalid_json")
        case ValueError():
            return ApiError(400, "The request body holds a number with too many digits.", code="invalid_json")
    codes = {404: "unknown_url", 405: "method_not_allowed", 413: "body_too_large"}
    code = codes.get(error.status_code, "invalid_request")
    return ApiError(error.status_code, str(error.detail), code=code, headers=error.headers)


def _storage(error: OperationalError) -> ApiError:
    """A database that cannot be used now; what it says holds statements and values, and stays in the log."""
    _log.error("The database failed", exc_info=error)
    if "disk is full" in str(error.orig):
        return _disk_full()
    message = "The database cannot be used now; the log tells why."
    return ApiError(503, message, error_type="server_error", code="storage_unavailable", retry_after_s=_RETRY_AFTER_S)


def _disk(error: OSError) -> ApiError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        _log.error("The disk is full", exc_info=error)
        return _disk_full()
    return _unforeseen(error)


def _disk_full() -> ApiError:
    message = "The server's disk is full: nothing can be stored until space is made there."
    return _server_error(507, message, "disk_full")


def install_error_handlers(app: FastAPI) -> None:
    """Makes every error leave in the envelope, those of the framework too."""

    async def handle(_request: Request, error: Exception) -> JSONResponse:
        return error_response(to_api_error(error))

    for kind in _CONVERTERS:
        app.add_exception_handler(kind, handle)
