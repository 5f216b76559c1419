"""What the packs know of their model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from readahead_serving.engine.kv.pack_manifest import PackIdentity
from readahead_serving.engine.request import EngineStats
from readahead_serving.packs.estimate import PackSize
from readahead_serving.packs.source import ChatEncoder


@dataclass(frozen=True, slots=True)
class PackModel:
    """One language model."""

    identity: PackIdentity
    encoder: ChatEncoder
    size: PackSize
    window: int
    """Tokens of prompt and completion together."""
    chunk_tokens: int
    stats: Callable[[], EngineStats]
