"""Models from the Hugging Face hub."""

from __future__ import annotations

import re
import threading
from fnmatch import fnmatch
from pathlib import Path

import httpx2
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RepositoryNotFoundError

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.pickles import refuse_pickles
from readahead_serving.model.progress import SizeCallback, folder_bytes

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_WANTED = ["*.safetensors", "*.json", "*.txt", "*.jinja", "LICENSE*", "README.md"]
_UNWANTED = ["onnx/*", "openvino/*", "original/*", "runs/*"]
_POLL_S = 0.5
_TIMEOUT_S = 30.0


class HubSource:
    """One repository: its safetensors, tokenizer and configuration files at the commit that is newest now.

    Args:
        repo_id: "organisation/name".
        endpoint: Another hub; by default what `HF_ENDPOINT` says, else huggingface.co.
    """

    def __init__(self, repo_id: str, endpoint: str | None = None) -> None:
        self._repo_id = repo_id
        self._api = HfApi(endpoint=endpoint)
        self._total = 0

    def total_bytes(self) -> int:
        return self._total

    def fetch(self, folder: Path, report: SizeCallback) -> None:
        try:
            info = self._api.model_info(self._repo_id, files_metadata=True, timeout=_TIMEOUT_S)
            refuse_pickles(self._repo_id, (file.rfilename for file in info.siblings or ()))
            self._total = sum(file.size or 0 for file in info.siblings or () if _is_wanted(file.rfilename))
            with _Watch(folder, report):
                self._api.snapshot_download(
                    self._repo_id,
                    revision=info.sha,
                    local_dir=folder,
                    allow_patterns=_WANTED,
                    ignore_patterns=_UNWANTED,
                )
        except RepositoryNotFoundError as error:
            raise ModelLoadError(f"The hub has no model {self._repo_id!r}, or it needs a token (HF_TOKEN).") from error
        except (HfHubHTTPError, OfflineModeIsEnabled, httpx2.HTTPError, OSError) as error:
            raise ModelLoadError(
                f"Cannot download {self._repo_id!r} from {self._api.endpoint} ({type(error).__name__}): check the "
                "network, or name a folder or a catalogue model instead."
            ) from error


def _is_wanted(name: str) -> bool:
    return any(fnmatch(name, one) for one in _WANTED) and not any(fnmatch(name, one) for one in _UNWANTED)


class _Watch:
    """Reports a folder's size from a thread while something else fills it."""

    def __init__(self, folder: Path, report: SizeCallback) -> None:
        self._folder = folder
        self._report = report
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="download-progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_POLL_S):
            self._report(folder_bytes(self._folder))
