"""A document says which reader read it, and may have a reading under way that is to take its place."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.add_column(sa.Column("reader", sa.Integer(), server_default="0", nullable=False))
        batch_op.add_column(sa.Column("rereads", sa.String(length=40), nullable=True))
        batch_op.create_index(batch_op.f("ix_documents_rereads"), ["rereads"], unique=False)


def downgrade() -> None:
    op.execute("delete from documents where rereads is not null")
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_documents_rereads"))
        batch_op.drop_column("rereads")
        batch_op.drop_column("reader")
