"""Has documents be read anew, and watches until each is finished."""

from __future__ import annotations

import time
from typing import Any

from readahead_platform.client import GatewayClient
from readahead_platform.commands.add_documents import POLL_S, document_summary, position
from readahead_platform.commands.progress import ProgressView, progress_view

_ENDED = frozenset({"searchable", "failed", "cancelled"})


def refresh_documents(client: GatewayClient, store: str, *, everything: bool, as_json: bool) -> list[dict[str, Any]]:
    """How each ended, as `document_summary` has it: one that failed names the error, and serves as it was read."""
    with progress_view(as_json=as_json) as view:
        jobs = client.found(f"/v1/vector_stores/{store}/refresh", {"all": everything})
        return [_watch(client, job["id"], view) for job in jobs]


def _watch(client: GatewayClient, job_id: str, view: ProgressView) -> dict[str, Any]:
    while True:
        job = client.get(f"/v1/jobs/{job_id}")
        view.update(job["document"], job["state"], *position(job))
        if job["state"] in _ENDED:
            return document_summary(job)
        time.sleep(POLL_S)
