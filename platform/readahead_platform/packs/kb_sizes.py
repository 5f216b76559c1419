"""About how many tokens a knowledge base has, without reading it whole."""

from __future__ import annotations

import bisect
import itertools
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from readahead_agents.errors import LanguageModelError
from readahead_agents.llm.base import LanguageModel
from readahead_retrieval.library import Library
from readahead_retrieval.types import Document, KnowledgeBase

SAMPLE_PAGES = 32
MAX_PAGE_CHARS = 4_000
"""Of a page in the sample."""
MAX_KNOWN = 256


class KbSizes:
    """Characters by the database, tokens by a sample; kept until documents change.

    The sample's pages are spread over all documents: one in another script has several times the tokens of as many
    English characters.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._known: OrderedDict[str, int] = OrderedDict()

    async def tokens(
        self, tenant: str, kb: KnowledgeBase, content: str, documents: Sequence[Document], llm: LanguageModel
    ) -> int | None:
        """About, of all searchable documents; None where there are none or the model cannot count.

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
        chars = await self._library.texts.chars(tenant, kb.id)
        sample = [await self._page(tenant, document, number) for document, number in _spread(documents)]
        if not any(map(str.strip, sample)):
            return None
        try:
            tokens = sum(await llm.count_tokens(sample))
        except LanguageModelError:
            return None
        return round(chars * tokens / sum(map(len, sample)))

    async def _page(self, tenant: str, document: Document, number: int) -> str:
        pages = await self._library.texts.pages(tenant, document.id, number, number)
        return "".join(page.text for page in pages)[:MAX_PAGE_CHARS]


def _spread(documents: Sequence[Document]) -> Iterator[tuple[Document, int]]:
    """At most `SAMPLE_PAGES` pages at even distances, as if the documents were one: each with its number, from 1 on."""
    ends = list(itertools.accumulate(document.pages for document in documents))
    count = min(ends[-1], SAMPLE_PAGES)
    for index in range(count):
        place = (2 * index + 1) * ends[-1] // (2 * count)
        which = bisect.bisect_right(ends, place)
        yield documents[which], place - ends[which] + documents[which].pages + 1
