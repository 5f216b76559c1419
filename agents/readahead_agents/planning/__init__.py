"""Plans: what the model writes, the schema that binds it, and the rules that mend it."""
