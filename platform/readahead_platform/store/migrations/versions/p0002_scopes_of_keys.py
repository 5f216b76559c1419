"""Keys have scopes; those made before could read and write, and still can."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "p0002"
down_revision = "p0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("platform_keys", sa.Column("scopes", sa.String(64), nullable=False, server_default="read write"))


def downgrade() -> None:
    op.drop_column("platform_keys", "scopes")
