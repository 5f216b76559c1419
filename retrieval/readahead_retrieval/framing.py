"""Messages between processes: four bytes of length, big-endian, and that many bytes of MessagePack.

Nothing is pickled, and nobody reads more than a bound: the other end may work on bytes of strangers.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

HEADER_BYTES = 4
_encoder = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class Framing:
    """How two ends frame their messages."""

    max_bytes: int
    """Of one message."""

    def encode(self, message: msgspec.Struct) -> bytes:
        """A whole frame.

        Raises:
            ValueError: The message is larger than a frame may be.
        """
        body = _encoder.encode(message)
        if len(body) > self.max_bytes:
            raise ValueError(f"a message of {len(body)} bytes exceeds the frame limit of {self.max_bytes}")
        return len(body).to_bytes(HEADER_BYTES, "big") + body

    def body_length(self, header: bytes) -> int:
        """The length that a frame's header announces.

        Raises:
            ValueError: It is larger than a frame may be.
        """
        length = int.from_bytes(header, "big")
        if length > self.max_bytes:
            raise ValueError(f"a frame of {length} bytes exceeds the limit of {self.max_bytes}")
        return length
