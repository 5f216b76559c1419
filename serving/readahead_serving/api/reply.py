"""The fields that all objects of one answer share."""

from __future__ import annotations

import time
import uuid
from typing import Any


class Reply:
    """One answer's identity: every chunk of a stream carries the same.

    Args:
        prefix: "chatcmpl" or "cmpl".
        model: The served model's name.
    """

    def __init__(self, prefix: str, model: str) -> None:
        self.id = f"{prefix}-{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._model = model

    def object(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """An OpenAI object of this answer."""
        head = {"id": self.id, "object": kind, "created": self._created, "model": self._model}
        return {**head, "choices": choices, **more}
