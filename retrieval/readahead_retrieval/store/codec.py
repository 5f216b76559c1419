"""The compact forms of what a row holds as bytes: MessagePack of flat integers, and float32 vectors."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.flat_words import FIELDS, FlatWords
from readahead_retrieval.types import Box, Heading, PageSpan, Word

VECTOR_NUMBER_BYTES = 4
"""Of float32."""
_SCALE = 65535  # boxes in 16 bits: finer than a pixel on any page
_integers = msgspec.msgpack.Decoder(list[int])


def encode_words(words: Sequence[Word]) -> bytes:
    if isinstance(words, FlatWords):
        return _encode_flat(words)
    return msgspec.msgpack.encode([n for w in words for n in (w.start, w.end, *_quantise(w.box))])


def _encode_flat(words: FlatWords) -> bytes:
    """The same bytes, many times faster, and with the interpreter free for others for the most of it."""
    table = np.asarray(words.numbers, dtype=np.float64).reshape(-1, FIELDS)
    table[:, 2:] = np.rint(np.clip(table[:, 2:], 0.0, 1.0) * _SCALE)
    return msgspec.msgpack.encode(table.astype(np.int64).ravel().tolist())


def decode_words(data: bytes) -> Sequence[Word]:
    """Made when they are asked for: each sentence of an answer is held against pages of a thousand words."""
    table = np.asarray(_integers.decode(data), dtype=np.float64).reshape(-1, FIELDS)
    table[:, 2:] /= _SCALE
    return FlatWords(table.ravel().tolist())


def encode_headings(headings: Sequence[Heading]) -> bytes:
    return msgspec.msgpack.encode([n for h in headings for n in (h.start, h.end, h.level)])


def decode_headings(data: bytes) -> tuple[Heading, ...]:
    flat = _integers.decode(data)
    return tuple(Heading(*flat[i : i + 3]) for i in range(0, len(flat), 3))


def encode_spans(spans: Sequence[PageSpan]) -> bytes:
    return msgspec.msgpack.encode([n for s in spans for n in (s.page, s.start, s.end)])


def decode_spans(data: bytes) -> tuple[PageSpan, ...]:
    flat = _integers.decode(data)
    return tuple(PageSpan(*flat[i : i + 3]) for i in range(0, len(flat), 3))


def encode_integers(numbers: Sequence[int]) -> bytes:
    return msgspec.msgpack.encode(list(numbers))


def decode_integers(data: bytes) -> tuple[int, ...]:
    return tuple(_integers.decode(data))


def encode_vector(vector: Vectors) -> bytes:
    return vector.astype("<f4", copy=False).tobytes()


def decode_vectors(rows: Sequence[bytes], dimension: int) -> Vectors:
    """Shape (len(rows), dimension)."""
    matrix = np.frombuffer(b"".join(rows), dtype="<f4").astype(np.float32)
    return matrix.reshape(len(rows), dimension)


def _quantise(box: Box) -> tuple[int, ...]:
    return tuple(round(min(max(n, 0.0), 1.0) * _SCALE) for n in (box.x0, box.y0, box.x1, box.y1))
