"""What the LLM server holds of one knowledge base, and what that can do for a question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from readahead_platform.packs.labels import Pack
from readahead_platform.packs.offer import NO_PACK, PackOffer
from readahead_retrieval.types import Document

READY = frozenset({"resident", "on_disk"})
BUILDING = frozenset({"building", "stale"})


@dataclass(frozen=True, slots=True)
class KbPack:
    """What the LLM server holds of a knowledge base."""

    current: Pack | None = None
    """The pack of the documents as they are now."""
    older: tuple[Pack, ...] = ()
    """Packs of what the documents were."""
    of_documents: Mapping[str, Pack] = field(default_factory=dict)
    """Packs of single documents that there still are, by the document's id."""
    content: str = ""
    """Names what the knowledge base holds now."""
    documents: tuple[Document, ...] = ()
    """Those that are searchable."""
    pending: int = 0
    """Documents on their way there."""

    @property
    def is_ready(self) -> bool:
        return self.current is not None and self.current["state"] in READY

    @property
    def shared_tokens(self) -> int:
        """Tokens that the pack under construction has in common with one of before, ahead of the first document that
        differs. A question on the new texts reads them there, and nothing behind them."""
        if self.current is None or self.current["state"] not in BUILDING:
            return 0
        return max((_shared(self.current, old) for old in self.older if old["state"] in READY), default=0)

    @property
    def changed(self) -> int:
        """Documents that were added, removed or changed since the newest of the older packs."""
        if self.current is not None or not self.older:
            return 0
        held = Counter(document["title"] for document in self.older[-1]["documents"])
        now = Counter(document.name for document in self.documents)
        return max(1, (held - now).total() + (now - held).total())

    def shown(self) -> Pack | None:
        """For people: the current pack, else the last one, which is stale because the documents have changed."""
        if self.current is not None or not self.older:
            return self.current
        return {**self.older[-1], "state": "stale", "reason": "documents_changed: documents were added or removed"}

    def offer(self) -> PackOffer:
        shown = self.shown()
        if shown is None:
            return NO_PACK
        if self.is_ready:
            return PackOffer(is_ready=True, tokens=int(shown["tokens"]), **_measured(shown))
        if shared := self.shared_tokens:
            tokens = int(shown["tokens"])
            return PackOffer(is_ready=True, tokens=tokens, delta_tokens=tokens - shared, state=str(shown["state"]))
        return _not_ready(shown)

    def document_offer(self, document_id: str) -> PackOffer:
        """What the pack of one document could do."""
        pack = self.of_documents.get(document_id)
        if pack is None:
            return NO_PACK
        if pack["state"] not in READY:
            return _not_ready(pack)
        return PackOffer(is_ready=True, tokens=int(pack["tokens"]), **_measured(pack))


def _not_ready(pack: Pack) -> PackOffer:
    reason = f" ({pack['reason']})" if pack["reason"] else ""
    return PackOffer(is_ready=False, why_not=f"Its pack is {pack['state']}{reason}.", state=str(pack["state"]))


def _measured(shown: Pack) -> dict[str, Any]:
    """Of a ready pack, what a route is chosen by."""
    computed, seconds, tokens = shown.get("tokens_computed"), shown.get("build_s"), int(shown["tokens"])
    whole_s = seconds * tokens / computed if seconds and computed else None  # one that extends another read only a part
    return {"state": str(shown["state"]), "build_s": whole_s, "nbytes": int(shown.get("bytes") or 0)}


def _shared(new: Pack, old: Pack) -> int:
    """Tokens of the documents that both packs begin with."""
    tokens = 0
    for one, other in zip(new["documents"], old["documents"], strict=False):
        if (one["title"], one["sha256"]) != (other["title"], other["sha256"]):
            break
        tokens = int(one["end_token"])
    return tokens
