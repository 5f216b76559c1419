"""SQLite gives no chunk's id twice: what 0002 made of the table gave a deleted one's id to the next.

Indexes of before may hold deleted texts under the ids of others. Their format is an older one, so that none of them is
opened again, and each is made anew from the kept vectors when it is first used.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The copied rows leave SQLite's count at the highest id there is. PostgreSQL's sequence never went back."""
    if op.get_bind().dialect.name == "sqlite":
        with op.batch_alter_table("chunks", recreate="always", table_kwargs={"sqlite_autoincrement": True}):
            pass


def downgrade() -> None:
    """Leaves the table as it is: what counts up is right for the older version, too."""
