"""The platform's tables, in the database it shares with retrieval and agents; it reads no table of theirs."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Boolean, DateTime, Float, ForeignKey, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Root of the platform's tables."""


class TenantRow(Base):
    """Someone whose documents nobody else sees."""

    __tablename__ = "platform_tenants"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class KeyRow(Base):
    """An API key: its hash only, for the key itself is shown once and never stored."""

    __tablename__ = "platform_keys"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("platform_tenants.id"), index=True)
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    hint: Mapped[str] = mapped_column(String(16))
    """The key's last characters, so that a person can tell keys apart."""
    label: Mapped[str] = mapped_column(String(200))
    admin: Mapped[bool] = mapped_column(Boolean)
    """Whether it may make keys for other tenants."""
    scopes: Mapped[str] = mapped_column(String(64))
    """What it may do: "read", "write", divided by spaces."""
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    revoked_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class PackWishRow(Base):
    """A pack that was dropped for what was deleted, and is to be built again of what is left."""

    __tablename__ = "platform_pack_wishes"

    tenant: Mapped[str] = mapped_column(String(64), primary_key=True)
    kb_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    document_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    """Empty for the pack of a whole knowledge base."""
    pin: Mapped[bool] = mapped_column(Boolean)
    ttl: Mapped[float | None] = mapped_column(Float)
