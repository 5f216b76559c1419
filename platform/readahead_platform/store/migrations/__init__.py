"""The platform's Alembic history."""
