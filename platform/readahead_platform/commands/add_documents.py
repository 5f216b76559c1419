"""Uploads files, adds them to a knowledge base, and watches until each is finished."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from readahead_platform.client import GatewayClient
from readahead_platform.commands.progress import ProgressView, progress_view
from readahead_platform.errors import CommandRefused

POLL_S = 0.25


def add_documents(
    client: GatewayClient, store: str, files: Sequence[Path], password: str | None, *, replace: bool, as_json: bool
) -> list[dict[str, Any]]:
    """The documents in the order of `files`, each as `document_summary` has it; what is refused stops no other.

    With `replace` a file takes the place of one of its name that was there before, once it is searchable (`replaced`
    tells it); files of one name within `files`, which come from different folders, stay side by side.
    """
    names = Counter(path.name for path in files)
    base = f"/v1/vector_stores/{store}/files"
    before = {one["document_id"]: one["document"] for one in client.entries(base, limit=10_000)} if replace else {}
    with progress_view(as_json=as_json) as view:
        added: list[str | dict[str, Any]] = []
        for path in files:
            view.update(path.name, "uploading", 0, 0)
            try:
                file_id = client.upload(path)["id"]
                alone = names[path.name] == 1
                client.post(base, {"file_id": file_id, "password": password, "replace": replace and alone})
                added.append(file_id)
            except CommandRefused as refusal:
                view.update(path.name, "failed", 0, 0)
                added.append(_refused(path, refusal))
        ended = [one if isinstance(one, dict) else _watch(client, f"{base}/{one}", view) for one in added]
    return [one | {"replaced": _took_a_place(one, before, names)} for one in ended]


def _took_a_place(document: Mapping[str, Any], before: Mapping[str, str], names: Mapping[str, int]) -> bool:
    """Whether another file of its name was there, and is there no more: one that may have come from another folder."""
    name = document["document"]
    is_new = document["state"] == "searchable" and document["document_id"] not in before
    return is_new and names.get(name) == 1 and name in before.values()


def _refused(path: Path, refusal: CommandRefused) -> dict[str, Any]:
    """What never became a document, in the same shape."""
    error = {"code": refusal.code, "message": refusal.message, "retryable": False}
    nothing = {"pages": 0, "pages_unread": [], "chunks": 0, "notes": []}
    return {"document": path.name, "state": "failed", **nothing, "error": error}


def _watch(client: GatewayClient, path: str, view: ProgressView) -> dict[str, Any]:
    while True:
        document = client.get(path)
        view.update(document["document"], document["state"], *position(document))
        if document["status"] != "in_progress":
            return document_summary(document)
        time.sleep(POLL_S)


def position(document: dict[str, Any]) -> tuple[int, int]:
    """Pages while reading, chunks afterwards."""
    if document["chunks"]:
        return document["chunks_done"], document["chunks"]
    return document["pages_done"], document["pages"]


def document_summary(document: dict[str, Any]) -> dict[str, Any]:
    """The shape that scripts read."""
    told = ("document", "document_id", "file_id", "state", "pages", "pages_unread", "chunks", "notes", "outdated")
    summary: dict[str, Any] = {name: document[name] for name in told if name in document}
    if document["error"] is not None:
        summary["error"] = document["error"]
    return summary
