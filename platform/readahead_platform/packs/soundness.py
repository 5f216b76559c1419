"""Which packs hold what was deleted."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

from readahead_platform.packs.labels import Held, Pack, PackUse, content_of, uses_of
from readahead_retrieval.errors import NotFound
from readahead_retrieval.library import Library
from readahead_retrieval.types import DocumentState

MAX_PROVED = 1000


class Soundness:
    """Compares packs with the library, text by text where their labels do not prove them sound."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._proved: OrderedDict[tuple[str, str], str] = OrderedDict()
        """By pack and use, the content under which nothing deleted was found, so that texts are read once for it."""

    async def unsound(self, tenant: str, kb_id: str, packs: Sequence[Pack]) -> list[Held]:
        """The uses of a knowledge base that are of a pack with a text which it holds no more."""
        uses = [(pack, use) for pack in packs for use in uses_of(pack, kb_id)]
        try:
            listed = await self._library.list_documents(tenant, kb_id)
            searchable = [document for document in listed if document.state == DocumentState.SEARCHABLE]
            content = content_of(searchable)
            sound = {content, *(content_of([document]) for document in searchable)}
            doubted = [(pack, use) for pack, use in uses if use.content not in sound]
            doubted = [(pack, use) for pack, use in doubted if self._proved.get((pack["id"], use.key)) != content]
            texts = await self._library.texts.of_kb(tenant, kb_id) if doubted else []
        except NotFound:  # the knowledge base itself is no more
            return uses
        held = {hashlib.sha256(one.text.encode()).hexdigest() for one in texts}
        unsound = []
        for pack, use in doubted:
            if _is_within(pack, use, held):
                self._prove((pack["id"], use.key), content)
            else:
                unsound.append((pack, use))
        return unsound

    def _prove(self, use: tuple[str, str], content: str) -> None:
        self._proved[use] = content
        while len(self._proved) > MAX_PROVED:
            self._proved.popitem(last=False)


def _is_within(pack: Pack, use: PackUse, held: set[str]) -> bool:
    """Whether it is used for a whole knowledge base and all its texts are there still."""
    whole = use.document_id is None and pack["documents"]
    return bool(whole) and all(document["sha256"] in held for document in pack["documents"])
