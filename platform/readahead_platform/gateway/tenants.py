"""Tenants and their API keys."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Select, select
from sqlalchemy.exc import IntegrityError

from readahead_platform.errors import ApiError
from readahead_platform.gateway.scopes import SCOPES, Scope
from readahead_platform.store.tables import KeyRow, TenantRow
from readahead_retrieval.store.session import Database

DEFAULT_TENANT = "default"
_KEY_PREFIX = "sk-ra-"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of a key after it was shown once."""

    id: str
    tenant: str
    label: str
    hint: str
    admin: bool
    scopes: tuple[Scope, ...]
    created_at: datetime
    revoked: bool


class TenantStore:
    """Makes, checks and revokes keys. The tenant of a request comes from here and from nowhere else."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def authenticate(self, key: str) -> ApiKey | None:
        """The key's record, or None when it is unknown or revoked."""
        async with self._database.reading() as session:
            row = await session.scalar(select(KeyRow).where(KeyRow.sha256 == _digest(key)))
        return _api_key(row) if row is not None and row.revoked_at is None else None

    async def create_key(
        self, tenant: str, label: str = "", *, admin: bool = False, scopes: Sequence[Scope] = SCOPES
    ) -> tuple[str, ApiKey]:
        """Makes a key, and the tenant where it is new. The first of the pair is the key: it cannot be had again."""
        key = _KEY_PREFIX + secrets.token_urlsafe(32)
        now = datetime.now(UTC)
        async with self._database.writing() as session:
            if await session.get(TenantRow, tenant) is None:
                with contextlib.suppress(IntegrityError):  # another first key of the tenant was made just now
                    async with session.begin_nested():
                        session.add(TenantRow(id=tenant, created_at=now))
            row = KeyRow(
                id=f"key_{secrets.token_hex(8)}",
                tenant_id=tenant,
                sha256=_digest(key),
                hint=key[-4:],
                label=label,
                admin=admin,
                scopes=" ".join(scope for scope in SCOPES if scope in scopes),
                created_at=now,
                revoked_at=None,
            )
            session.add(row)
        return key, _api_key(row)

    async def names(self) -> list[str]:
        """Of all tenants, oldest first."""
        async with self._database.reading() as session:
            return list(await session.scalars(select(TenantRow.id).order_by(TenantRow.created_at)))

    async def list_keys(self, tenant: str | None) -> list[ApiKey]:
        """The keys of one tenant, or of all of them, oldest first; revoked ones too."""
        async with self._database.reading() as session:
            rows = await session.scalars(_of_tenant(select(KeyRow), tenant).order_by(KeyRow.created_at))
            return [_api_key(row) for row in rows]

    async def revoke_key(self, key_id: str, tenant: str | None) -> ApiKey:
        """Ends a key at once; revoking twice is no error.

        Raises:
            ApiError: 404 when the tenant has no such key.
        """
        async with self._database.writing() as session:
            row = await session.scalar(_of_tenant(select(KeyRow).where(KeyRow.id == key_id), tenant))
            if row is None:
                raise ApiError(404, f"No API key {key_id!r} was found.", code="not_found")
            row.revoked_at = row.revoked_at or datetime.now(UTC)
        return _api_key(row)


def _of_tenant(query: Select[KeyRow], tenant: str | None) -> Select[KeyRow]:
    return query if tenant is None else query.where(KeyRow.tenant_id == tenant)


def _digest(key: str) -> str:
    """Keys carry 256 random bits, so a plain hash cannot be guessed and needs no salt."""
    return hashlib.sha256(key.encode()).hexdigest()


def _api_key(row: KeyRow) -> ApiKey:
    created_at = row.created_at.replace(tzinfo=UTC)  # SQLite forgets the zone; it was written as UTC
    return ApiKey(
        id=row.id,
        tenant=row.tenant_id,
        label=row.label,
        hint=row.hint,
        admin=row.admin,
        scopes=tuple(scope for scope in SCOPES if scope in row.scopes.split()),
        created_at=created_at,
        revoked=row.revoked_at is not None,
    )
