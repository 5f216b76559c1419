"""What the visitor's key may do on the page: the same as over the API."""

from __future__ import annotations

from readahead_platform.web.elements import toast
from readahead_platform.web.visitor import Visitor

SIGNED_OUT = "Your API key was revoked. Reload the page to sign in again."
_READS_ONLY = "Your API key may only read: to change something, sign in with one that may write."


async def may_change(visitor: Visitor) -> bool:
    """Whether the key may write now; if not, the page says why."""
    key = await visitor.key()
    if key is not None and "write" in key.scopes:
        return True
    toast(SIGNED_OUT if key is None else _READS_ONLY, bad=True)
    return False
