"""How many tokens a knowledge base has, without reading it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from readahead_agents.errors import LanguageModelError
from readahead_agents.llm.base import LanguageModel
from readahead_retrieval.library import Library
from readahead_retrieval.types import Document, KnowledgeBase

SAMPLE_CHARS = 8_000
SAMPLE_PAGES = 4
MAX_KNOWN = 256


class KbSizes:
    """Characters by the database, tokens by a sample of the newest document; kept until documents change."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._known: OrderedDict[str, int] = OrderedDict()

    async def tokens(
        self, tenant: str, kb: KnowledgeBase, content: str, documents: Sequence[Document], llm: LanguageModel
    ) -> int | None:
        """Of all searchable documents; None where there are none or the model cannot count.

        Args:
            content: Names what the knowledge base holds now.
        """
        if content not in self._known:
            counted = await self._counted(tenant, kb, documents, llm)
            if counted is None:
                return None
            self._known[content] = counted
            while len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        self._known.move_to_end(content)
        return self._known[content]

    async def _counted(
        self, tenant: str, kb: KnowledgeBase, documents: Sequence[Document], llm: LanguageModel
    ) -> int | None:
        if not documents:
            return None
        chars = await self._library.text_chars(tenant, kb.id)
        pages = await self._library.pages(tenant, documents[-1].id, 1, SAMPLE_PAGES)
        sample = "\n\n".join(page.text for page in pages)[:SAMPLE_CHARS]
        if not sample.strip():
            return None
        try:
            [tokens] = await llm.count_tokens([sample])
        except LanguageModelError:
            return None
        return round(chars * tokens / len(sample))
