"""Who is asking: the tenant comes from the key alone."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from readahead_platform.errors import ApiError
from readahead_platform.gateway.errors import error_response
from readahead_platform.gateway.page_links import PageLinks
from readahead_platform.gateway.scopes import Scope as KeyScope
from readahead_platform.gateway.scopes import needed_scope
from readahead_platform.gateway.tenants import ApiKey, TenantStore

_KEYED = re.compile(r"/v1(/|$)")
_PAGE_IMAGE = re.compile(r"/v1/documents/(?P<document_id>[^/]+)/pages/[^/]+\.png")


class AuthMiddleware:
    """Lets nobody below /v1 without a key, before a byte of the body is read.

    It stands before the routes, so that a route added later is closed until it says otherwise.
    """

    def __init__(self, app: ASGIApp, tenants: TenantStore, page_links: PageLinks) -> None:
        self._app = app
        self._tenants = tenants
        self._page_links = page_links

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _KEYED.match(scope["path"]):
            try:
                await self._admit(scope)
            except ApiError as error:
                await error_response(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _admit(self, scope: Scope) -> None:
        state = scope.setdefault("state", {})
        linked = self._tenant_of_link(scope)
        if linked is not None:
            state["tenant"] = linked
            return
        state["key"] = key = await require_key(self._tenants, Headers(scope=scope))
        require_scope(key, needed_scope(scope["method"], scope["path"]))
        state["tenant"] = key.tenant

    def _tenant_of_link(self, scope: Scope) -> str | None:
        page = _PAGE_IMAGE.fullmatch(scope["path"])
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if page is None or tokens is None:
            return None
        return self._page_links.verify(tokens[0], page["document_id"])


async def require_key(tenants: TenantStore, headers: Headers) -> ApiKey:
    """The key of a request.

    Raises:
        ApiError: 401 when there is none, or it is unknown or revoked.
    """
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise ApiError(401, "Send your API key as `Authorization: Bearer sk-ra-…`.", code="missing_api_key")
    record = await tenants.authenticate(key.strip())
    if record is None:
        raise ApiError(401, "The API key is unknown or revoked.", code="invalid_api_key")
    return record


def require_scope(key: ApiKey, scope: KeyScope) -> None:
    """Raises `ApiError`, 403, when the key may not do that."""
    if scope not in key.scopes:
        message = f"This API key may only {' and '.join(key.scopes)}, and this request needs the scope {scope!r}."
        raise ApiError(403, message, error_type="permission_error", code="insufficient_scope")


def _tenant(request: Request) -> str:
    return str(request.state.tenant)


def _key(request: Request) -> ApiKey:
    key: ApiKey = request.state.key
    return key


Tenant = Annotated[str, Depends(_tenant)]
"""The tenant of the request's key."""
Key = Annotated[ApiKey, Depends(_key)]
"""The request's key; not for routes that signed links reach."""
