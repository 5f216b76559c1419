"""Responses in OpenAI's shape: what is asked, how it is answered, and the typed events that tell it."""
