"""A document says how often its text for packs changed; a row to write for the sake of it; removals by their age."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.add_column(sa.Column("revision", sa.Integer(), server_default="0", nullable=False))
    op.create_table(
        "write_probe",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_write_probe")),
    )
    with op.batch_alter_table("removed_documents", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_removed_documents_tenant_removed_at"), ["tenant", "removed_at"], unique=False
        )


def downgrade() -> None:
    with op.batch_alter_table("removed_documents", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_removed_documents_tenant_removed_at"))
    op.drop_table("write_probe")
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.drop_column("revision")
