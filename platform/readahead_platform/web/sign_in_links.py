"""Links that sign a browser in once, for the terminal to print."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

LIFETIME_S = 900.0
MAX_OPEN = 100
"""Links that may be open at a time; the oldest gives way."""


class SignInLinks:
    """One-time tokens that stand for a key. Held in memory: a restart ends them all."""

    def __init__(self, lifetime_s: float = LIFETIME_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._open: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def path(self, api_key: str) -> str:
        """The path and query of a link that signs in with this key, once, within `lifetime_s`."""
        token = secrets.token_urlsafe(24)
        self._open[token] = (api_key, self._clock() + self._lifetime_s)
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        return f"/?link={token}"

    def redeem(self, token: str) -> str | None:
        """The key, or None when the link is unknown, used or too old."""
        api_key, expires = self._open.pop(token, ("", 0.0))
        return api_key if api_key and self._clock() < expires else None
