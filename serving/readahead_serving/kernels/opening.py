"""From the setting to kernels that were checked, or to the reason why PyTorch computes alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from readahead_serving.errors import KernelsUnavailable
from readahead_serving.kernels.build import KernelChoice, choose_level, ensure_library
from readahead_serving.kernels.check import is_sound
from readahead_serving.kernels.library import Kernels


@dataclass(frozen=True, slots=True)
class OpenedKernels:
    """What has come of a choice."""

    kernels: Kernels | None
    state: str
    """For people: "avx512", or "off" with the reason."""


def open_kernels(choice: KernelChoice, folder: Path) -> OpenedKernels:
    """Builds, loads and checks the kernels. Whatever is in the way, the answer is PyTorch and a reason.

    Args:
        choice: The setting's.
        folder: Where compiled libraries are kept.
    """
    try:
        level = choose_level(choice)
        kernels = _load(ensure_library(level, folder))
    except KernelsUnavailable as error:
        return OpenedKernels(None, f"off: {error}")
    if not is_sound(kernels):
        return OpenedKernels(None, f"off: the {level} kernels do not compute what PyTorch does")
    return OpenedKernels(kernels, level)


def _load(path: Path) -> Kernels:
    try:
        return Kernels(path)
    except (OSError, AttributeError) as error:  # no library, or one without our functions
        raise KernelsUnavailable(f"{path} can't be loaded: {error}") from error
