"""Conversations and their items; runs that are turns of one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "a0002"
down_revision = "a0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agent_runs", sa.Column("conversation", sa.String(64), nullable=True))
    op.create_index("ix_agent_runs_conversation", "agent_runs", ["conversation"])
    op.create_table(
        "agent_conversations",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("last_number", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_agent_conversations_tenant_changed", "agent_conversations", ["tenant", "changed_at"])
    op.create_table(
        "agent_conversation_items",
        sa.Column(
            "conversation_id",
            sa.String(64),
            sa.ForeignKey("agent_conversations.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String(80), nullable=False),
        sa.Column("item", sa.Text, nullable=False),
        sa.UniqueConstraint("conversation_id", "id", name="uq_agent_conversation_items_id"),
    )


def downgrade() -> None:
    op.drop_table("agent_conversation_items")
    op.drop_table("agent_conversations")
    op.drop_index("ix_agent_runs_conversation", "agent_runs")
    op.drop_column("agent_runs", "conversation")
