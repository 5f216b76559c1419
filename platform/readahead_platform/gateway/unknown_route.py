"""What is asked of a path below /v1 that no route answers."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from readahead_platform.errors import ApiError
from readahead_platform.gateway.errors import error_response

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_QUOTED_CHARS = 200


class UnknownRoute:
    """Answers for the API, so that the web page, which is mounted at /, does not with a page of its own.

    A path that other methods know is 405 with `Allow` (RFC 9110, section 15.5.6), any other 404.
    """

    def __init__(self, app: FastAPI) -> None:
        self._routes = tuple(app.router.routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await error_response(self._error(scope))(scope, receive, send)

    def _error(self, scope: Scope) -> ApiError:
        method, path = scope["method"], scope["path"][:_QUOTED_CHARS]
        allowed = [known for known in _METHODS if self._is_known({**scope, "method": known})]
        if not allowed:
            return ApiError(404, f"There is no such route: {path}.", code="unknown_url")
        allow = ", ".join(allowed)
        message = f"{path} takes {allow}, not {method}."
        return ApiError(405, message, code="method_not_allowed", headers={"Allow": allow})

    def _is_known(self, scope: Scope) -> bool:
        return any(route.matches(scope)[0] is Match.FULL for route in self._routes)
