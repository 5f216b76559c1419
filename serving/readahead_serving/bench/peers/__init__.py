"""Other LLM servers on this machine, for a comparison that anybody can repeat."""
