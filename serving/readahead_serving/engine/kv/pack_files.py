"""A pack's folder: written beside and renamed, mapped back. Nothing in it is ever unpickled."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.pack_manifest import (
    BLOCKS,
    FORMAT_VERSION,
    MANIFEST,
    PAGE_BYTES,
    TOKENS,
    Block,
    DocumentSpan,
    PackIdentity,
    PackManifest,
    encode_manifest,
    read_manifest,
)

assert sys.byteorder == "little", "the layout on disk is little-endian and mapped as it is"


def write_pack(folder: Path, kv: PackKV, identity: PackIdentity, documents: Sequence[DocumentSpan]) -> PackManifest:
    """Writes a pack so that `folder` holds it whole or does not exist, also when the power fails.

    Raises:
        OSError: The disk is full, or refuses; nothing of the pack stays on it.
    """
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        beside.mkdir(parents=True)
        manifest = _write_files(beside, kv, identity, documents)
        _sync_folder(beside)
        beside.replace(folder)
        _sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return manifest


def map_pack(folder: Path) -> PackKV:
    """Maps a verified pack into memory: pages are read as they are touched, and given back when memory is short.

    Raises:
        PackRefused: The manifest is damaged.
        OSError: A file is gone.
    """
    manifest = read_manifest(folder)
    tokens = np.fromfile(folder / TOKENS, dtype="<i4").tolist()
    # A private mapping: the file stays as it is whatever is done to the tensors.
    raw = torch.from_file(str(folder / BLOCKS), shared=False, size=manifest.block_file_bytes, dtype=torch.uint8)
    blocks = [raw[block.offset : block.offset + block.nbytes] for block in manifest.blocks]
    heads, count, dim = shape = manifest.num_kv_heads, manifest.num_tokens, manifest.head_dim
    if not manifest.is_bytes:
        dtype: torch.dtype = getattr(torch, manifest.identity.dtype)
        tensors = [block.view(dtype).view(shape) for block in blocks]
        return PackKV(tokens, tensors[::2], tensors[1::2])
    return PackKV(
        tokens,
        [block.view(torch.int8).view(shape) for block in blocks[::4]],
        [block.view(torch.int8).view(shape) for block in blocks[2::4]],
        [block.view(torch.float32).view(heads, -1, dim) for block in blocks[1::4]],
        [block.view(torch.float32).view(heads, count) for block in blocks[3::4]],
    )


def _write_files(folder: Path, kv: PackKV, identity: PackIdentity, documents: Sequence[DocumentSpan]) -> PackManifest:
    tokens = np.asarray(kv.token_ids, dtype="<i4").tobytes()
    _write(folder / TOKENS, tokens)
    with (folder / BLOCKS).open("xb") as file:
        blocks = list(_write_blocks(file, kv))
        _sync(file)
    num_kv_heads, _, head_dim = kv.keys[0].shape
    manifest = PackManifest(
        format=FORMAT_VERSION,
        identity=identity,
        num_tokens=kv.num_tokens,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        tokens_sha256=hashlib.sha256(tokens).hexdigest(),
        documents=list(documents),
        blocks=blocks,
    )
    assert manifest.is_bytes == kv.is_bytes
    _write(folder / MANIFEST, encode_manifest(manifest))
    return manifest


def _write_blocks(file: BinaryIO, kv: PackKV) -> Iterator[Block]:
    offset = 0
    for tensor in kv.tensors():
        file.seek(offset)
        data = _bytes(tensor)
        file.write(data)
        yield Block(offset, data.nbytes, hashlib.sha256(data).hexdigest())
        offset += -(-data.nbytes // PAGE_BYTES) * PAGE_BYTES


def _bytes(tensor: Tensor) -> memoryview:
    # as bytes, because numpy knows no bfloat16
    return tensor.flatten().view(torch.uint8).numpy().data


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        _sync(file)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
