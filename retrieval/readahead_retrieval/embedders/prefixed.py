"""An embedder for models that want to be told what a text is: E5 and its like ("query: …", "passage: …")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from readahead_retrieval.embedders.windowed import WindowedEmbedder
from readahead_retrieval.embedding import Embedder, Vectors
from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.tokens import TokenCounter


class PrefixedEmbedder:
    """Wraps another. The prefixes are part of the model's id: vectors with and without them don't belong together."""

    def __init__(self, embedder: Embedder, counter: TokenCounter, *, query: str, passage: str) -> None:
        self._embedder = embedder
        self._prefixes = {"query": query, "passage": passage}
        self.max_tokens = embedder.max_tokens - max(map(counter.count, self._prefixes.values()))

    @property
    def model_id(self) -> str:
        query, passage = self._prefixes.values()
        return f"{self._embedder.model_id} ({query!r}, {passage!r})"

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        """As the wrapped one, each text behind its kind's prefix."""
        return await self._embedder.embed([self._prefixes[kind] + text for text in texts], kind)


def prepared(embedder: Embedder, counter: TokenCounter, settings: RetrievalSettings) -> Embedder:
    """The embedder as retrieval uses it: texts of any length, with the prefixes that its model wants."""
    windowed = WindowedEmbedder(embedder, counter)
    query, passage = settings.embedding_query_prefix, settings.embedding_passage_prefix
    if not query and not passage:
        return windowed
    return PrefixedEmbedder(windowed, counter, query=query, passage=passage)
