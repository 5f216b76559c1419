"""What our own servers tell beside their answers: metrics and packs. That others tell nothing is no error."""

from __future__ import annotations

import asyncio

import httpx

from readahead_serving.bench.client import Target
from readahead_serving.errors import BenchFailed

_PREFIX = "readahead_"
_POLL_S = 0.1
_IDLE_POLLS = 300
_BUILD_POLLS = 6000
_DONE = ("resident", "on_disk", "failed", "stale")


class ServerProbe:
    """Asks a server about itself. An async context manager is not needed: each question is a connection of its own."""

    def __init__(self, target: Target) -> None:
        self._root = target.url.removesuffix("/v1")
        self._headers = {"authorization": f"Bearer {target.api_key}"} if target.api_key else {}

    async def metrics(self) -> dict[str, float]:
        """Our server's metrics without labels; empty for any other server."""
        try:
            async with self._http() as http:
                response = await http.get("/metrics")
        except httpx.HTTPError:
            return {}
        lines = (line.split() for line in response.text.splitlines() if line.startswith(_PREFIX))
        pairs = (words for words in lines if len(words) == 2 and "{" not in words[0])
        return {name.removeprefix(_PREFIX): float(value) for name, value in pairs}

    async def idle_metrics(self) -> dict[str, float]:
        """The metrics once nothing runs or waits, and the engine has proved its books.

        Raises:
            BenchFailed: It does not become idle.
        """
        for _ in range(_IDLE_POLLS):
            metrics = await self.metrics()
            if not metrics or (
                metrics["requests_running"] + metrics["requests_waiting"] == 0 and metrics["integrity_checks"] >= 1
            ):
                return metrics
            await asyncio.sleep(_POLL_S)
        raise BenchFailed("The server did not become idle.")

    async def build_pack(self, system: str) -> dict[str, object] | None:
        """Has the server keep a system message as a pack; None where the server has no packs.

        Raises:
            BenchFailed: It has packs and this one failed.
        """
        body = {"messages": [{"role": "system", "content": system}], "pin": True}
        async with self._http() as http:
            response = await http.post("/v1/packs", json=body)
            if response.status_code in (httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED):
                return None
            if response.is_error:
                raise BenchFailed(f"The server refuses the pack: {response.text[:300]}")
            pack: dict[str, object] = response.json()
            for _ in range(_BUILD_POLLS):
                if pack["state"] in _DONE:
                    break
                await asyncio.sleep(_POLL_S)
                pack = (await http.get(f"/v1/packs/{pack['id']}")).raise_for_status().json()
        if pack["state"] not in ("resident", "on_disk"):
            raise BenchFailed(f"The pack is {pack['state']}: {pack.get('reason')}")
        return pack

    def _http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self._root, headers=self._headers, timeout=60.0)
