"""Names the model that keys and values belong to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from readahead_serving.engine.kv.pack_manifest import LAYOUT, PackIdentity
from readahead_serving.model.config import ModelConfig
from readahead_serving.model.tokenizer import Tokenizer

_SAMPLES = 64
_SAMPLE_BYTES = 64 << 10


def pack_identity(
    path: Path, config: ModelConfig, tokenizer: Tokenizer, *, dtype: str, weights: str = "", layout: str = LAYOUT
) -> PackIdentity:
    """The identity of packs made by a model.

    A model's files are named by their sizes and by samples spread over them, headers and ends included: training
    changes weights everywhere, and reading all of a large model at each start would cost what packs are to save.
    """
    return PackIdentity(
        model=_digest(msgspec.json.encode(config), *_samples(path)),
        tokenizer=_digest(tokenizer.to_json().encode()),
        template=tokenizer.template_digest,
        rope=_digest(msgspec.json.encode((config.rope_theta, config.rope_scaling, config.head_dim))),
        dtype=dtype,
        weights=weights,
        layout=layout,
    )


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _samples(path: Path) -> Iterator[bytes]:
    files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    for file in files:
        size = file.stat().st_size
        yield str(size).encode()
        step = max(_SAMPLE_BYTES, (size - _SAMPLE_BYTES) // _SAMPLES)
        with file.open("rb") as opened:
            for offset in [*range(0, max(1, size - _SAMPLE_BYTES), step), max(0, size - _SAMPLE_BYTES)]:
                opened.seek(offset)
                yield opened.read(_SAMPLE_BYTES)
