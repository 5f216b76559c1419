"""The agents' tables, in the database they share with retrieval and platform; they read no table of theirs."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Boolean, DateTime, ForeignKey, Index, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Root of the agents' tables."""


class RunRow(Base):
    """One run: what was asked, and how it ended."""

    __tablename__ = "agent_runs"
    __table_args__ = (Index("ix_agent_runs_tenant_created", "tenant", "created_at"),)

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    """Which resource shows it."""
    tenant: Mapped[str] = mapped_column(String(64))
    conversation: Mapped[str | None] = mapped_column(String(64), index=True)
    """The conversation that it is a turn of, with which it goes."""
    status: Mapped[str] = mapped_column(String(16))
    request: Mapped[str] = mapped_column(Text)
    """JSON."""
    size: Mapped[int] = mapped_column(Integer)
    """Bytes of JSON that it takes with its events; 0 until it has ended."""
    outcome: Mapped[str | None] = mapped_column(Text)
    """JSON: the answer, or the error."""
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    finished_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class RunEventRow(Base):
    """Something that happened in a run."""

    __tablename__ = "agent_run_events"

    run_id: Mapped[str] = mapped_column(ForeignKey("agent_runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    """From 1, without gaps."""
    event: Mapped[str] = mapped_column(Text)
    """JSON with its `type`."""


class ConversationRow(Base):
    """One conversation, to which its items belong."""

    __tablename__ = "agent_conversations"
    __table_args__ = (Index("ix_agent_conversations_tenant_changed", "tenant", "changed_at"),)

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(64))
    labels: Mapped[str] = mapped_column("metadata", Text)
    """JSON: the client's own metadata."""
    size: Mapped[int] = mapped_column(Integer)
    """Characters of JSON that its items take."""
    last_number: Mapped[int] = mapped_column(Integer)
    """Of its newest item; numbers are not given twice."""
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    changed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class ConversationItemRow(Base):
    """A message, a call or its result."""

    __tablename__ = "agent_conversation_items"
    __table_args__ = (UniqueConstraint("conversation_id", "id", name="uq_agent_conversation_items_id"),)

    conversation_id: Mapped[str] = mapped_column(
        ForeignKey("agent_conversations.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    """Its place, from 1."""
    id: Mapped[str] = mapped_column(String(80))
    item: Mapped[str] = mapped_column(Text)
    """JSON with its `id`."""


class DecisionRow(Base):
    """The client's word on a call that waited for it; there is one for each call."""

    __tablename__ = "agent_decisions"
    __table_args__ = (Index("ix_agent_decisions_tenant_decided", "tenant", "decided_at"),)

    tenant: Mapped[str] = mapped_column(String(64), primary_key=True)
    request_id: Mapped[str] = mapped_column(String(80), primary_key=True)
    approve: Mapped[bool] = mapped_column(Boolean)
    decided_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
