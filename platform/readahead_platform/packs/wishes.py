"""Packs that are owed: somebody had them, and they were dropped for what was deleted."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, delete, select

from readahead_platform.packs.labels import Pack, PackUse
from readahead_platform.store.tables import PackWishRow
from readahead_retrieval.store.session import Database, insert_for


@dataclass(frozen=True, slots=True)
class PackWish:
    """A pack to be built again, of what is left."""

    tenant: str
    kb_id: str
    document_id: str | None = None
    """Of the only document that it is of; None for the pack of the knowledge base."""
    pin: bool = False
    ttl: float | None = None

    @classmethod
    def of(cls, tenant: str, pack: Pack, use: PackUse) -> PackWish:
        """For a pack like that one, for the same use."""
        return cls(tenant, use.kb_id, use.document_id, bool(pack["pin"]), pack["ttl"])


class PackWishes:
    """Kept in the database, so that they outlive the gateway and the LLM server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, wish: PackWish) -> None:
        """The last one of a knowledge base or document counts."""
        key = {"tenant": wish.tenant, "kb_id": wish.kb_id, "document_id": wish.document_id or ""}
        keeping = {"pin": wish.pin, "ttl": wish.ttl}
        async with self._database.writing() as session:
            insert = insert_for(session)(PackWishRow).values(key | keeping)
            await session.execute(insert.on_conflict_do_update(index_elements=list(key), set_=keeping))

    async def of_tenant(self, tenant: str) -> list[PackWish]:
        """Packs of knowledge bases before those of documents."""
        rows = select(PackWishRow).where(PackWishRow.tenant == tenant)
        async with self._database.reading() as session:
            found = await session.scalars(rows.order_by(PackWishRow.kb_id, PackWishRow.document_id))
            return [PackWish(row.tenant, row.kb_id, row.document_id or None, row.pin, row.ttl) for row in found]

    async def remove(self, wish: PackWish) -> None:
        """It is met, or nobody has it any more."""
        await self._remove(wish.tenant, wish.kb_id, PackWishRow.document_id == (wish.document_id or ""))

    async def remove_all(self, tenant: str, kb_id: str) -> None:
        """Those of a knowledge base and of its documents."""
        await self._remove(tenant, kb_id)

    async def _remove(self, tenant: str, kb_id: str, *which: ColumnElement[bool]) -> None:
        of_kb = and_(PackWishRow.tenant == tenant, PackWishRow.kb_id == kb_id, *which)
        async with self._database.writing() as session:
            await session.execute(delete(PackWishRow).where(of_kb))
