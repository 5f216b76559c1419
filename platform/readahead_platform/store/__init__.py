"""The platform's own tables: tenants and API keys."""
