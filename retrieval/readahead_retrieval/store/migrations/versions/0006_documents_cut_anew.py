"""A document says how its chunks were cut, and what is to take its place may be cut from the pages it has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.add_column(sa.Column("cut", sa.String(length=80), nullable=True))
        batch_op.add_column(sa.Column("shares_pages", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    op.execute("delete from documents where shares_pages")
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.drop_column("shares_pages")
        batch_op.drop_column("cut")
