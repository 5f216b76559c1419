"""Compiles the kernels on the machine that runs them, once, and keeps what came out.

A plain C interface without a header of PyTorch's: one call of g++ takes seconds, and no version of PyTorch or Python
breaks what it made.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from readahead_serving.errors import KernelsUnavailable

Level = Literal["avx512", "avx2"]
"""What a library is compiled for: AVX-512 with bfloat16 products, or AVX2 with FMA."""

KernelChoice = Literal["auto", "off", "avx2", "avx512"]
"""Which kernels to use; "auto" takes the best that the processor supports."""

BUILD_LIMIT_S = 120
"""After so many seconds a build is given up. It takes 3 on an idle core."""
KEPT_LIBRARIES = 8
"""Libraries that stay on disk, for other versions that share the folder."""

_LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
"""Run in a process of its own for what was found: loading a file that is none of ours can end the process."""
_SOURCES = Path(__file__).parent
_COMPILER = "g++"
_COMMON = ("-std=gnu++17", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-w")
_LINKED = ("-shared", "-fPIC", "-pthread")
_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512bf16", "-mprefer-vector-width=512")
_FLAGS: dict[Level, tuple[str, ...]] = {"avx2": _AVX2, "avx512": (*_AVX2, *_AVX512)}
_NEEDED: dict[Level, frozenset[str]] = {
    "avx512": frozenset({"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_bf16"}),
    "avx2": frozenset({"avx2", "fma", "f16c"}),
}


def supported_levels() -> list[Level]:
    """What this processor runs, the best first; nothing but on x86-64 Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    flags = next((frozenset(line.split()) for line in lines if line.startswith("flags")), frozenset[str]())
    return [level for level, needed in _NEEDED.items() if needed <= flags]


def choose_level(choice: KernelChoice) -> Level:
    """What to compile for.

    Raises:
        KernelsUnavailable: They are switched off, or the processor lacks what they need.
    """
    if choice == "off":
        raise KernelsUnavailable("switched off by the setting kernels")
    supported = supported_levels()
    level = next(iter(supported), None) if choice == "auto" else choice
    if level is None or level not in supported:
        wanted = "AVX2 and FMA on x86-64 Linux" if choice == "auto" else f"what kernels={choice} means"
        raise KernelsUnavailable(f"this processor lacks {wanted}")
    return level


def ensure_library(level: Level, folder: Path) -> Path:
    """The compiled library, built if it is not there yet.

    Args:
        level: One that this processor supports.
        folder: Where libraries are kept.

    Raises:
        KernelsUnavailable: There is no compiler, it fails, or the folder can't be written.
    """
    command = [find_compiler(), *_COMMON, *_LINKED, *_FLAGS[level]]
    key = _key(command)
    found = _kept(folder, level, key)
    return found or _build(command, folder, level, key)


def find_compiler() -> str:
    """Where the compiler is.

    Raises:
        KernelsUnavailable: There is none.
    """
    path = shutil.which(_COMPILER)
    if path is None:
        raise KernelsUnavailable(f"there is no C++ compiler ({_COMPILER}) on this machine")
    return path


def _sources() -> list[Path]:
    return sorted(_SOURCES.glob("*.cpp"))


def _key(command: list[str]) -> str:
    version = _run([command[0], "--version"])
    parts = [version, *command]
    parts.extend(path.read_text(encoding="utf-8") for path in sorted([*_sources(), *_SOURCES.glob("*.hpp")]))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _kept(folder: Path, level: Level, key: str) -> Path | None:
    """A library of this key that is whole and our own: its digest is in its name. Whatever else lies there under such
    a name, a folder or a link to nothing, is passed over."""
    for path in sorted(folder.glob(f"{level}-{key}-*.so")):
        with contextlib.suppress(OSError, KernelsUnavailable):
            if path.is_file() and path.stat().st_uid == os.getuid() and path.stem.endswith(_digest(path)):
                _run([sys.executable, "-I", "-S", "-c", _LOAD, str(path)])
                return path
    return None


def _build(command: list[str], folder: Path, level: Level, key: str) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as beside:
            made = Path(beside) / "kernels.so"
            _run([*command, *map(str, _sources()), "-o", str(made)])
            path = folder / f"{level}-{key}-{_digest(made)}.so"
            made.replace(path)
        _remove_old(folder)
    except OSError as error:
        raise KernelsUnavailable(f"{folder} can't be written: {error.strerror}") from error
    return path


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603  our own command
            command, capture_output=True, text=True, errors="replace", timeout=BUILD_LIMIT_S, check=True
        )
    except subprocess.TimeoutExpired as error:
        raise KernelsUnavailable(f"{command[0]} took over {BUILD_LIMIT_S} s") from error
    except subprocess.CalledProcessError as error:
        raise KernelsUnavailable(f"{command[0]} fails: {str(error.stderr).strip()[-500:]}") from error
    except OSError as error:
        raise KernelsUnavailable(f"{command[0]} can't be run: {error.strerror}") from error
    return done.stdout


def _remove_old(folder: Path) -> None:
    libraries = [path for path in folder.glob("*.so") if path.is_file()]
    for path in sorted(libraries, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT_LIBRARIES:]:
        path.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
