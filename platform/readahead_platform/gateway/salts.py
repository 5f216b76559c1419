"""What parts the LLM server's caches by tenant."""

from __future__ import annotations

import hashlib

_HEADER = "X-Readahead-Salt"


def salt_headers(tenant: str) -> dict[str, str]:
    """The header that only the gateway sends: the LLM server believes it, because nobody else has its key.

    The same tenant has the same salt after a restart, so that packs on disk are found again.
    """
    return {_HEADER: hashlib.sha256(f"readahead tenant\0{tenant}".encode()).hexdigest()[:32]}
