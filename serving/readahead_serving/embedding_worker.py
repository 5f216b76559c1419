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
from typing import IO, TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

LENGTH = struct.Struct("<I")


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first frame: the model is loaded."""

    dimension: int
    max_length: int
    """Tokens of one sequence at most, special tokens included."""


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


class Encoder:
    """A sentence-transformers model that takes token ids, special tokens included.

    Args:
        path: The model's folder.
        threads: Compute threads. One leaves the other cores to the engine, whose small operations wait for each other.
        bfloat16: Compute in bfloat16 where the processor knows it (AMX, AVX-512 BF16); elsewhere float32 wins.
    """

    def __init__(self, path: Path, *, threads: int, bfloat16: bool) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(threads)
        use_bfloat16 = bfloat16 and (torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
        dtype = torch.bfloat16 if use_bfloat16 else torch.float32
        self._model = SentenceTransformer(str(path), device="cpu", model_kwargs={"dtype": dtype}, local_files_only=True)
        self._model.eval()
        self._padding_id = int(self._model.tokenizer.pad_token_id or 0)
        self.hello = Hello(dimension=int(self._model.get_embedding_dimension()), max_length=self._model.max_seq_length)

    def embed(self, batch: list[list[int]]) -> bytes:
        """Vectors of a batch as float32 bytes, (sequences, dimension)."""
        import torch

        length = max(map(len, batch))
        ids = torch.full((len(batch), length), self._padding_id)
        mask = torch.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        with torch.inference_mode():
            vectors: Tensor = self._model({"input_ids": ids, "attention_mask": mask})["sentence_embedding"]
        return vectors.float().numpy().tobytes()


def main(path: str, threads: str, dtype: str) -> None:
    """Serves batches until standard input ends."""
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, signal.SIG_IGN)  # a group's signal: the server drains first, then closes our input
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a library prints must not land among the frames
    try:
        encoder = Encoder(Path(path), threads=int(threads), bfloat16=dtype == "bfloat16")
    except Exception as error:  # a damaged model folder fails in any way it likes; the server says so in one line
        logger.debug("Loading failed", exc_info=True)
        sink.write(encode_frame(Failed(message=f"{path}: {error}")))
        return
    sink.write(encode_frame(encoder.hello))
    while (batch := _read_batch(source)) is not None:
        try:
            answer: Vectors | Failed = Vectors(data=encoder.embed(batch))
        except (RuntimeError, MemoryError, IndexError) as error:  # torch's ways to refuse one batch
            answer = Failed(message=str(error).splitlines()[0])
        sink.write(encode_frame(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
