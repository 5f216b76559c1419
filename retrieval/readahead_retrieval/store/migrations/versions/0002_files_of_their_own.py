"""Files of the same bytes are told apart, passwords are sealed, and stores, files and chunks carry what people set."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from alembic import context, op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _upgrade_knowledge_bases()
    _make_tables()
    op.execute(
        "INSERT INTO attachments (kb_id, file_id, document_id, attributes, created_at) "
        "SELECT kb_id, file_id, id, '{}', created_at FROM documents"
    )
    with op.batch_alter_table("chunks", schema=None) as batch_op:
        batch_op.add_column(sa.Column("disabled", sa.Boolean(), server_default=sa.false(), nullable=False))
    _upgrade_documents()


def _upgrade_knowledge_bases() -> None:
    with op.batch_alter_table("knowledge_bases", schema=None) as batch_op:
        batch_op.add_column(sa.Column("details", sa.JSON(), server_default="{}", nullable=False))
        batch_op.add_column(sa.Column("expires_after_days", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("last_active_at", sa.DateTime(timezone=True), nullable=True))
    op.execute("UPDATE knowledge_bases SET last_active_at = created_at")
    with op.batch_alter_table("knowledge_bases", schema=None) as batch_op:
        batch_op.alter_column("details", server_default=None, existing_type=sa.JSON())
        batch_op.alter_column("last_active_at", nullable=False, existing_type=sa.DateTime(timezone=True))
        batch_op.alter_column("name", type_=sa.String(length=255), existing_type=sa.String(length=200))
        batch_op.drop_constraint(batch_op.f("uq_knowledge_bases_tenant_name"), type_="unique")
        batch_op.create_index(batch_op.f("ix_knowledge_bases_tenant_name"), ["tenant", "name"], unique=False)


def _make_tables() -> None:
    op.create_table(
        "removed_documents",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("tenant", sa.String(length=200), nullable=False),
        sa.Column("name", sa.String(length=1000), nullable=False),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_removed_documents")),
    )
    op.create_table(
        "file_batches",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("kb_id", sa.String(length=40), nullable=False),
        sa.Column("cancelled", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["kb_id"], ["knowledge_bases.id"], name=op.f("fk_file_batches_kb_id_knowledge_bases"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_file_batches")),
    )
    op.create_index(op.f("ix_file_batches_kb_id"), "file_batches", ["kb_id"])
    op.create_table(
        "batch_files",
        sa.Column("batch_id", sa.String(length=40), nullable=False),
        sa.Column("file_id", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["file_batches.id"], name=op.f("fk_batch_files_batch_id_file_batches"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["file_id"], ["files.id"], name=op.f("fk_batch_files_file_id_files"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("batch_id", "file_id", name=op.f("pk_batch_files")),
    )
    op.create_index(op.f("ix_batch_files_file_id"), "batch_files", ["file_id"])
    op.create_table(
        "attachments",
        sa.Column("kb_id", sa.String(length=40), nullable=False),
        sa.Column("file_id", sa.String(length=40), nullable=False),
        sa.Column("document_id", sa.String(length=40), nullable=False),
        sa.Column("attributes", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name=op.f("fk_attachments_document_id_documents"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["file_id"], ["files.id"], name=op.f("fk_attachments_file_id_files"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["kb_id"], ["knowledge_bases.id"], name=op.f("fk_attachments_kb_id_knowledge_bases"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("kb_id", "file_id", name=op.f("pk_attachments")),
    )
    op.create_index(op.f("ix_attachments_file_id"), "attachments", ["file_id"])
    op.create_index(op.f("ix_attachments_document_id"), "attachments", ["document_id"])


def _upgrade_documents() -> None:
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.add_column(sa.Column("sealed_password", sa.LargeBinary(), nullable=True))
        batch_op.add_column(sa.Column("replaces", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch_op.add_column(sa.Column("chunk_tokens", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("chunk_overlap_tokens", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("started_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.add_column(sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True))
    _seal_passwords()
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.alter_column("replaces", server_default=None, existing_type=sa.Boolean())
        batch_op.drop_index(batch_op.f("ix_documents_file_id"))
        batch_op.drop_constraint(batch_op.f("fk_documents_file_id_files"), type_="foreignkey")
        batch_op.drop_column("password")


def _seal_passwords() -> None:
    """Without a seal, as when nobody's home is migrated, they are dropped: such files ask for theirs again."""
    seal: Callable[[str], bytes] | None = context.config.attributes.get("seal")
    if seal is None:
        return
    table = sa.table(
        "documents",
        sa.column("id", sa.String()),
        sa.column("password", sa.String()),
        sa.column("sealed_password", sa.LargeBinary()),
    )
    connection = op.get_bind()
    for row in connection.execute(sa.select(table.c.id, table.c.password).where(table.c.password.is_not(None))).all():
        sealed = seal(row.password)
        connection.execute(sa.update(table).where(table.c.id == row.id).values(sealed_password=sealed))


def downgrade() -> None:
    """Keeps one file of each document, and no password; fails where stores share a name. Long names keep their room."""
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.add_column(sa.Column("password", sa.String(length=1000), nullable=True))
        batch_op.create_foreign_key(
            batch_op.f("fk_documents_file_id_files"), "files", ["file_id"], ["id"], ondelete="CASCADE"
        )
        batch_op.create_index(batch_op.f("ix_documents_file_id"), ["file_id"], unique=False)
        for name in ("sealed_password", "replaces", "chunk_tokens", "chunk_overlap_tokens", "started_at"):
            batch_op.drop_column(name)
        batch_op.drop_column("finished_at")
    with op.batch_alter_table("chunks", schema=None) as batch_op:
        batch_op.drop_column("disabled")
    for table in ("attachments", "batch_files", "file_batches", "removed_documents"):
        op.drop_table(table)
    with op.batch_alter_table("knowledge_bases", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_knowledge_bases_tenant_name"))
        batch_op.create_unique_constraint(batch_op.f("uq_knowledge_bases_tenant_name"), ["tenant", "name"])
        for name in ("details", "expires_after_days", "last_active_at"):
            batch_op.drop_column(name)
