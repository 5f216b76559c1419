"""Run by Alembic: applies the history on the connection that `migrate` passes in."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table="alembic_version_agents",
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
