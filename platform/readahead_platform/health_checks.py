"""What the service needs of the machine it runs on."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from readahead_platform.errors import StartError
from readahead_platform.home import unusable_home
from readahead_platform.ports import bind_gateway
from readahead_platform.settings import Settings
from readahead_serving.errors import KernelsUnavailable, ModelLoadError
from readahead_serving.kernels.build import KernelChoice, choose_level, find_compiler
from readahead_serving.model.store import ModelStore

_MIN_FREE_BYTES = 2 << 30
_ANSWER_S = 2.0


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; `detail` names the mend where `ok` is false."""

    name: str
    ok: bool
    required: bool
    detail: str


def run_checks(settings: Settings) -> Sequence[Check]:
    """All checks, none of which changes anything."""
    return [
        _python(),
        _home(settings.home),
        _disk(settings.home),
        *(_model(settings, name) for name in (settings.serving.model, settings.serving.embedding_model) if name),
        _kernels(settings.serving.kernels),
        _port(settings.host, settings.port),
        _program("tesseract", "reads scanned pages"),
        _program("chromium", "runs the browser tests"),
    ]


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", sys.version_info >= (3, 11), True, f"{version}; 3.11 or newer is needed")


def _home(home: Path) -> Check:
    problem = unusable_home(home)
    mend = f"{problem}; set READAHEAD_HOME to a folder you may write"
    return Check("home", problem is None, True, str(home) if problem is None else mend)


def _disk(home: Path) -> Check:
    free = shutil.disk_usage(_existing(home)).free
    return Check("disk", free >= _MIN_FREE_BYTES, True, f"{free / 1e9:.1f} GB free at {home}; 2 GB are needed")


def _model(settings: Settings, name: str) -> Check:
    try:
        path = ModelStore(settings.serving.models_dir).resolve(name)
    except ModelLoadError as error:
        return Check(f"model {name}", False, False, str(error))
    return Check(f"model {name}", True, False, str(path))


def _kernels(choice: KernelChoice) -> Check:
    try:
        level = choose_level(choice)
        compiler = find_compiler()
    except KernelsUnavailable as error:
        return Check("kernels", False, False, f"off: {error}; PyTorch computes alone, two to four times slower")
    return Check("kernels", True, False, f"{level}, built with {compiler} at the first start")


def _port(host: str, port: int) -> Check:
    try:
        bind_gateway(host, port).close()
    except StartError as error:
        if _is_ours(host, port):
            return Check("port", True, False, f"{port}: Readahead runs there")
        return Check("port", False, False, str(error))
    return Check("port", True, False, f"{port} is free")


def _is_ours(host: str, port: int) -> bool:
    """Whether a gateway answers there, ready or not."""
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    try:
        told = httpx.get(f"{url}/health/ready", timeout=_ANSWER_S, trust_env=False).json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return False
    return isinstance(told, dict) and "gateway" in (told.get("parts") or {})


def _program(name: str, use: str) -> Check:
    path = shutil.which(name)
    return Check(name, path is not None, False, path or f"not found; it is optional ({use})")


def _existing(path: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next(place for place in (path, *path.parents) if place.exists())
