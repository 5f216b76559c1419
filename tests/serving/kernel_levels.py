"""The kernels of each level that this processor runs, built once for all tests."""

from __future__ import annotations

from functools import cache

import pytest

from readahead_serving.kernels.build import Level, supported_levels
from readahead_serving.kernels.library import Kernels
from readahead_serving.kernels.opening import open_kernels
from readahead_serving.settings import ServingSettings

LEVELS: tuple[Level, ...] = ("avx2", "avx512")


@cache
def kernels_of(level: Level) -> Kernels:
    """Skips the test where the processor lacks the level; fails where the kernels can't be built or are unsound."""
    if level not in supported_levels():
        pytest.skip(f"this processor does not run {level}")
    opened = open_kernels(level, ServingSettings().kernels_dir.expanduser())
    assert opened.kernels is not None, opened.state
    return opened.kernels
