"""Models from a hub, which is here a small HTTP server that answers as the real one does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.progress import DownloadProgress
from readahead_serving.model.store import ModelStore

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WANTED = {"config.json": b"{}", "model.safetensors": bytes(5000), "1_Pooling/config.json": b"{}", "LICENSE": b"MIT"}
UNWANTED = {"pytorch_model.bin": b"pickle", "onnx/config.json": b"{}", "run.py": b"print()"}


class Hub(BaseHTTPRequestHandler):
    """Knows one repository, org/tiny."""

    files: ClassVar[dict[str, bytes]] = WANTED | UNWANTED

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/org/tiny/tree/"):
            tree = [{"type": "file", "path": n, "size": len(d), "oid": n} for n, d in self.files.items()]
            return self._answer(200, json.dumps(tree).encode())
        if self.path.startswith("/api/models/org/tiny"):
            siblings = [{"rfilename": name, "size": len(data)} for name, data in self.files.items()]
            body = json.dumps({"id": "org/tiny", "sha": COMMIT, "siblings": siblings}).encode()
            return self._answer(200, body)
        name = self.path.removeprefix(f"/org/tiny/resolve/{COMMIT}/")
        if name in self.files:
            return self._answer(200, self.files[name])
        return self._answer(404, b"", {"X-Error-Code": "RepoNotFound"})

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        etag = {"ETag": f'"{hashlib.sha1(body).hexdigest()}"', "X-Repo-Commit": COMMIT}
        for key, value in ({"Content-Length": str(len(body))} | etag | (headers or {})).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the parent's name
        return


@pytest.fixture
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_hub_model_is_fetched_without_code_and_found_offline(endpoint: str, tmp_path: Path) -> None:
    store = ModelStore(tmp_path, hub_endpoint=endpoint)
    seen: list[DownloadProgress] = []
    path = store.ensure("org/tiny", seen.append)
    found = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    found.pop(".readahead.json")
    assert found == WANTED
    assert seen[-1].stage == "done"
    offline = ModelStore(tmp_path, hub_endpoint="http://127.0.0.1:1")
    assert offline.ensure("org/tiny") == offline.resolve("org/tiny") == path
    assert [one.name for one in offline.list()] == ["org/tiny"]


def test_a_model_that_the_hub_lacks_is_named(endpoint: str, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="The hub has no model 'org/other'"):
        ModelStore(tmp_path, hub_endpoint=endpoint).ensure("org/other")


def test_a_hub_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"Cannot download 'org/tiny' from http://127\.0\.0\.1:1 "):
        ModelStore(tmp_path, hub_endpoint="http://127.0.0.1:1").ensure("org/tiny")


def test_weights_that_are_pickles_are_refused_before_anything_is_downloaded(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hub, "files", {"config.json": b"{}", "pytorch_model.bin": b"pickle"})
    with pytest.raises(ModelLoadError, match=r"org/tiny publishes its weights as pickles"):
        ModelStore(tmp_path, hub_endpoint=endpoint).ensure("org/tiny")
    assert not list(tmp_path.rglob("config.json"))
