"""Packs that are owed, because they were dropped for what was deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "p0003"
down_revision = "p0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "platform_pack_wishes",
        sa.Column("tenant", sa.String(64), primary_key=True),
        sa.Column("kb_id", sa.String(64), primary_key=True),
        sa.Column("document_id", sa.String(64), primary_key=True),
        sa.Column("pin", sa.Boolean, nullable=False),
        sa.Column("ttl", sa.Float, nullable=True),
    )


def downgrade() -> None:
    op.drop_table("platform_pack_wishes")
