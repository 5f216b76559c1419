"""How fast the LLM server reads, as it has measured itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from readahead_platform.errors import ApiError
from readahead_platform.gateway.llm_client import LlmClient

FRESH_S = 10.0
"""Seconds for which an answer holds."""
_SAMPLE = "The harbour opens at seven. " * 100
"""About what a search adds to a prompt; reading a token costs a little more the longer a prompt is."""


class ReadingSpeed:
    """Asks for the estimate of a pack that is not built: it stands on measured steps, and costs no computing."""

    def __init__(self, llm: LlmClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._llm = llm
        self._clock = clock
        self._asked_at: float | None = None
        self._seconds: float | None = None

    async def seconds_per_token(self, tenant: str) -> float | None:
        """Of prompts; None where the server has measured nothing yet, or has no such estimate."""
        now = self._clock()
        if self._seconds is None or self._asked_at is None or now - self._asked_at > FRESH_S:
            self._asked_at, self._seconds = now, await self._ask(tenant)
        return self._seconds

    async def _ask(self, tenant: str) -> float | None:
        body = {"messages": [{"role": "user", "content": _SAMPLE}], "dry_run": True}
        try:
            answer = await self._llm.request("POST", "/v1/packs", body, tenant=tenant)
        except ApiError:
            return None
        if answer.status != 200:
            return None
        told = json.loads(answer.body)
        seconds, tokens = told.get("build_s"), told.get("tokens")
        return seconds / tokens if seconds and tokens else None
