"""An embedding process that misbehaves on request: the first token id of a batch says how."""

from __future__ import annotations

import struct
import sys
import time

import msgspec

from readahead_serving.embedding_worker import LENGTH, Hello, Vectors, encode_frame

DIMENSION = 2
WELL, NONSENSE, HANG, TOO_SHORT = range(4)


def main() -> None:
    sink = sys.stdout.buffer
    sink.write(encode_frame(Hello(dimension=DIMENSION, max_length=8, revision="1")))
    sink.flush()
    while head := sys.stdin.buffer.read(LENGTH.size):
        batch = msgspec.msgpack.decode(sys.stdin.buffer.read(LENGTH.unpack(head)[0]), type=list[list[int]])
        manner = batch[0][0]
        if manner == HANG:
            time.sleep(600)
        row = struct.pack(f"<{DIMENSION}f", 1.0, 0.0)
        well = encode_frame(Vectors(data=row * (len(batch) if manner != TOO_SHORT else 0)))
        sink.write(LENGTH.pack(3) + b"\xc1\xc1\xc1" if manner == NONSENSE else well)
        sink.flush()


if __name__ == "__main__":
    main()
