"""Who is looking at the page: a key kept in the browser's session on the server decides the tenant."""

from __future__ import annotations

from dataclasses import dataclass

from nicegui import app

from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.tenants import ApiKey

_KEY = "api_key"
_THEME = "theme"


@dataclass(frozen=True, slots=True)
class Visitor:
    """A signed-in browser tab and what it may reach."""

    context: GatewayContext
    tenant: str
    api_key: str

    async def key(self) -> ApiKey | None:
        """What the key may do now; None where it was revoked since the page was opened."""
        key = await self.context.tenants.authenticate(self.api_key)
        return key if key is not None and key.tenant == self.tenant else None


async def visitor_of_session(context: GatewayContext) -> Visitor | None:
    """The visitor whose key the browser's session holds, or None when there is none or it was revoked."""
    api_key = app.storage.user.get(_KEY)
    key = await context.tenants.authenticate(api_key) if isinstance(api_key, str) else None
    if key is None:
        sign_out()
        return None
    assert isinstance(api_key, str)
    return Visitor(context, key.tenant, api_key)


async def sign_in(context: GatewayContext, api_key: str) -> bool:
    """Keeps a valid key in the browser's session."""
    if await context.tenants.authenticate(api_key) is None:
        return False
    app.storage.user[_KEY] = api_key
    return True


def sign_out() -> None:
    app.storage.user.pop(_KEY, None)


def theme() -> bool | None:
    """True for dark, False for light, None for what the system says."""
    value = app.storage.user.get(_THEME)
    return value if isinstance(value, bool) else None


def keep_theme(value: bool | None) -> None:
    app.storage.user[_THEME] = value
