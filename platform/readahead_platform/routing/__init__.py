"""How a question finds its way."""
