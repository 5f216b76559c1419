"""The clients' words on calls that waited for them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "a0003"
down_revision = "a0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agent_decisions",
        sa.Column("tenant", sa.String(64), primary_key=True),
        sa.Column("request_id", sa.String(80), primary_key=True),
        sa.Column("approve", sa.Boolean, nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_agent_decisions_tenant_decided", "agent_decisions", ["tenant", "decided_at"])


def downgrade() -> None:
    op.drop_table("agent_decisions")
