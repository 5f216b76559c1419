"""Takes over, at start, the packs that an earlier server has left on disk."""

from __future__ import annotations

import logging
import sys
from array import array
from pathlib import Path

import msgspec

from readahead_serving.engine.kv.pack_manifest import TOKENS, PackIdentity, PackRefused, check
from readahead_serving.engine.kv.pack_store import PackStore
from readahead_serving.packs.record import PackRecord, PackState, version_of
from readahead_serving.packs.source import PackTokens

log = logging.getLogger(__name__)


def adopt(store: PackStore, identity: PackIdentity) -> dict[str, PackRecord]:
    """Every pack whose texts are there. One whose KV may not be used is stale, with the reason; the blocks themselves
    are proved when they are first loaded. Blocks: call it in a thread."""
    found = {}
    for pack_id, data in store.sources().items():
        try:
            record = PackRecord.restored(pack_id, data)
        except msgspec.MsgspecError as error:
            log.warning("pack %s is left alone: what it was made from cannot be read: %s", pack_id, error)
            continue
        record.used_at = store.used_at(pack_id)
        _adopt_version(store, record, identity)
        found[pack_id] = record
    return found


def _adopt_version(store: PackStore, record: PackRecord, identity: PackIdentity) -> None:
    folders = [entry for entry in store.folder(record.pack_id).iterdir() if entry.is_dir()]
    reason = "unbuilt: it was never built to the end"
    for folder in sorted(folders):
        try:
            manifest = check(folder, identity)
            tokens = _read_tokens(folder / TOKENS)
        except PackRefused as error:
            reason = f"{error.code}: {error}"
            continue
        if version_of(identity, tokens) != folder.name:
            reason = "damaged: its tokens are not those it is named by"
            continue
        record.tokens = PackTokens(token_ids=tokens, documents=manifest.documents)
        record.version, record.state, record.on_disk = folder.name, PackState.ON_DISK, True
        record.tokens_done, record.nbytes = len(tokens), manifest.kv_bytes
        return
    record.state, record.reason = PackState.STALE, reason


def _read_tokens(path: Path) -> list[int]:
    tokens = array("i")
    try:
        tokens.frombytes(path.read_bytes())
    except OSError as error:
        raise PackRefused("damaged", f"its tokens cannot be read ({error.strerror})") from error
    if sys.byteorder == "big":
        tokens.byteswap()
    return tokens.tolist()
