"""How near short texts are to a question: for looking once more at what a search by whole passages passed over."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from readahead_retrieval.embedding import Embedder
from readahead_retrieval.errors import RetrievalError

log = logging.getLogger(__name__)


async def nearness(embedder: Embedder, question: str, texts: Sequence[str]) -> list[float]:
    """The cosine of each text with the question. Zeros where the embedding service fails: nothing is near then."""
    if not texts:
        return []
    try:
        [asked] = await embedder.embed([question], "query")
        vectors = await embedder.embed(texts, "passage")
    except RetrievalError as error:
        log.warning("Nothing is compared by meaning: %s", error.message)
        return [0.0] * len(texts)
    return [float(cosine) for cosine in vectors @ asked]
