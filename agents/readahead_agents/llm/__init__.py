"""The language model as the agent sees it."""
