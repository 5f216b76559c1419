"""What a key may do: read what is there, or change it too."""

from __future__ import annotations

import re
from typing import Literal, get_args

Scope = Literal["read", "write"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
_READING_POSTS = re.compile(
    r"/v1/(chat/completions|completions|embeddings|vector_stores/[^/]+/(search|retrieval_test)"
    r"|(responses|agent/runs)(/[^/]+/cancel)?|conversations(/.+)?)/?"
)
"""Questions and conversations: their bodies are too long for a query string, and they change no document."""


def needed_scope(method: str, path: str) -> Scope:
    """The scope that a request needs; a route added later needs `write` until it is named above."""
    if method in _SAFE_METHODS or (method == "POST" and _READING_POSTS.fullmatch(path)):
        return "read"
    return "write"
