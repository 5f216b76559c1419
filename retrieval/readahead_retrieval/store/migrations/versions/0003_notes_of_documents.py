"""A document says what its file holds and is not read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.add_column(sa.Column("notes", sa.JSON(), server_default="[]", nullable=False))
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.alter_column("notes", server_default=None, existing_type=sa.JSON())


def downgrade() -> None:
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.drop_column("notes")
