"""Signed links to page images, for a browser's <img>, which cannot send a key."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlencode

from readahead_retrieval.types import Box


class PageLinks:
    """Signs (tenant, document, expiry) with a secret of this process; a restart ends all links."""

    def __init__(self, lifetime_s: float, clock: Callable[[], float] = time.time) -> None:
        self._secret = secrets.token_bytes(32)
        self._lifetime_s = lifetime_s
        self._clock = clock

    def url(self, tenant: str, document_id: str, page: int, boxes: Sequence[Box] = ()) -> str:
        """A path with its query for one page's image with these boxes highlighted."""
        query = {"token": self.sign(tenant, document_id)}
        if boxes:
            query["boxes"] = format_boxes(boxes)
        return f"/v1/documents/{document_id}/pages/{page}.png?{urlencode(query)}"

    def sign(self, tenant: str, document_id: str) -> str:
        payload = f"{tenant}.{int(self._clock() + self._lifetime_s)}"
        return f"{payload}.{self._mac(payload, document_id)}"

    def verify(self, token: str, document_id: str) -> str | None:
        """The tenant that the token was signed for, or None when it is forged, expired or for another document."""
        payload, _, mac = token.rpartition(".")
        if not hmac.compare_digest(mac.encode(), self._mac(payload, document_id).encode()):
            return None
        tenant, _, expires = payload.rpartition(".")
        return tenant if int(expires) > self._clock() else None

    def _mac(self, payload: str, document_id: str) -> str:
        return hmac.new(self._secret, f"{payload}\n{document_id}".encode(), hashlib.sha256).hexdigest()


def format_boxes(boxes: Sequence[Box]) -> str:
    """ "x0,y0,x1,y1;…" with four decimals: a tenth of a pixel of a page image."""
    return ";".join(",".join(f"{value:.4f}" for value in (b.x0, b.y0, b.x1, b.y1)) for b in boxes)


def parse_boxes(text: str, *, max_boxes: int = 64) -> tuple[Box, ...]:
    """Reads what `format_boxes` writes.

    Raises:
        ValueError: The text is not of that form, or holds more than `max_boxes`.
    """
    parts = text.split(";") if text else []
    if len(parts) > max_boxes:
        raise ValueError(f"more than {max_boxes} boxes")
    boxes = []
    for part in parts:
        values = [float(value) for value in part.split(",")]
        if len(values) != 4 or not all(0 <= value <= 1 for value in values):
            raise ValueError(f"{part!r} is not x0,y0,x1,y1 between 0 and 1")
        boxes.append(Box(*values))
    return tuple(boxes)
