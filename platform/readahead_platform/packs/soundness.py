"""Which packs hold what was deleted."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

from readahead_platform.packs.labels import Pack, content_of, document_of, held_content
from readahead_retrieval.errors import NotFound
from readahead_retrieval.library import Library
from readahead_retrieval.types import DocumentState

MAX_PROVED = 1000


class Soundness:
    """Compares packs with the library, text by text where their labels do not prove them sound."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._proved: OrderedDict[str, str] = OrderedDict()
        """By pack, the content under which it was found to hold nothing deleted, so that texts are read once for it."""

    async def unsound(self, tenant: str, kb_id: str, packs: Sequence[Pack]) -> list[Pack]:
        """Those of a knowledge base's packs that hold a text which it holds no more."""
        try:
            listed = await self._library.list_documents(tenant, kb_id)
            searchable = [document for document in listed if document.state == DocumentState.SEARCHABLE]
            content = content_of(searchable)
            sound = {content, *(content_of([document]) for document in searchable)}
            doubted = [pack for pack in packs if held_content(pack) not in sound]
            doubted = [pack for pack in doubted if self._proved.get(pack["id"]) != content]
            texts = await self._library.texts.of_kb(tenant, kb_id) if doubted else []
        except NotFound:  # the knowledge base itself is no more
            return list(packs)
        held = {hashlib.sha256(one.text.encode()).hexdigest() for one in texts}
        unsound = []
        for pack in doubted:
            if _is_within(pack, held):
                self._prove(pack["id"], content)
            else:
                unsound.append(pack)
        return unsound

    def _prove(self, pack_id: str, content: str) -> None:
        self._proved[pack_id] = content
        while len(self._proved) > MAX_PROVED:
            self._proved.popitem(last=False)


def _is_within(pack: Pack, held: set[str]) -> bool:
    """Whether it is a whole knowledge base's and all its texts are there still."""
    whole = document_of(pack) is None and pack["documents"]
    return bool(whole) and all(document["sha256"] in held for document in pack["documents"])
