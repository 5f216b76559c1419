"""Puts a server's pack shelf together."""

from __future__ import annotations

import asyncio
from pathlib import Path

from readahead_serving.backends.native import NativeEngine
from readahead_serving.engine.kv.pack_manifest import BYTES_LAYOUT, LAYOUT
from readahead_serving.engine.kv.pack_policy import PackPolicy
from readahead_serving.engine.kv.pack_store import PackStore
from readahead_serving.model.metadata import load_config
from readahead_serving.model.tokenizer import Tokenizer
from readahead_serving.packs.estimate import PackSize
from readahead_serving.packs.identity import pack_identity
from readahead_serving.packs.pack_model import PackModel
from readahead_serving.packs.shelf import PackShelf
from readahead_serving.settings import ServingSettings


async def open_shelf(settings: ServingSettings, path: Path, tokenizer: Tokenizer, engine: NativeEngine) -> PackShelf:
    """The packs of a running engine, those on disk adopted."""
    config = await asyncio.to_thread(load_config, path)
    identity = await asyncio.to_thread(
        pack_identity,
        path,
        config,
        tokenizer,
        dtype=settings.dtype,
        weights=settings.weights,
        layout=BYTES_LAYOUT if settings.pack_kv == "int8" else LAYOUT,
    )
    model = PackModel(
        identity=identity,
        encoder=tokenizer,
        size=PackSize.of(config, identity),
        window=engine.max_model_len,
        chunk_tokens=settings.prefill_chunk_tokens,
        stats=engine.stats,
    )
    store = PackStore(settings.packs_dir.expanduser(), settings.pack_disk_bytes)
    shelf = PackShelf(model, store, PackPolicy(settings.pack_memory_bytes, settings.pack_pin_share))
    await shelf.start()
    engine.use_packs(shelf)
    return shelf
