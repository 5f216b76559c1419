"""The embedding process: batches of token ids in, vectors out, over its standard streams.

Frames are a length (4 bytes, little-endian) and a MessagePack body. The process ends when its input does, so it never
outlives the server that started it. It reads no file but the model's and imports nothing of the API.
"""

from __future__ import annotations

import logging
import os
import signal
import struct
import sys
from pathlib import Path
from typing import IO, Any

import msgspec

from readahead_serving.kernels.build import KernelChoice

logger = logging.getLogger(__name__)

LENGTH = struct.Struct("<I")


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first frame: the model is loaded."""

    dimension: int
    max_length: int
    """Tokens of one sequence at most, special tokens included."""
    revision: str
    """Digest of the weights."""


class Vectors(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The answer to one batch."""

    data: bytes
    """float32, little-endian, one row for each sequence of the batch, in its order."""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The batch could not be computed, and the process goes on; as the first frame, the model can't be loaded."""

    message: str


def encode_frame(message: Any) -> bytes:
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body


def _read_batch(stream: IO[bytes]) -> list[list[int]] | None:
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return msgspec.msgpack.decode(stream.read(LENGTH.unpack(head)[0]), type=list[list[int]])


def main(path: str, threads: str, dtype: str, kernels: str, kernels_dir: str) -> None:
    """Serves batches until standard input ends."""
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, signal.SIG_IGN)  # a group's signal: the server drains first, then closes our input
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a library prints must not land among the frames
    try:
        # With torch: whoever only speaks to us needs none.
        from readahead_serving.embedding_encoder import Encoder
        from readahead_serving.kernels.opening import open_kernels

        opened = open_kernels(msgspec.convert(kernels, KernelChoice), Path(kernels_dir))
        bfloat16 = dtype == "bfloat16"
        encoder = Encoder(Path(path), threads=int(threads), bfloat16=bfloat16, kernels=opened.kernels)
    except Exception as error:  # a damaged model folder fails in any way it likes; the server says so in one line
        logger.debug("Loading failed", exc_info=True)
        sink.write(encode_frame(Failed(message=f"{path}: {error}")))
        return
    hello = Hello(dimension=encoder.dimension, max_length=encoder.max_length, revision=encoder.revision)
    sink.write(encode_frame(hello))
    while (batch := _read_batch(source)) is not None:
        try:
            answer: Vectors | Failed = Vectors(data=encoder.embed(batch))
        except (RuntimeError, MemoryError, IndexError) as error:  # torch's ways to refuse one batch
            answer = Failed(message=str(error).splitlines()[0])
        sink.write(encode_frame(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
