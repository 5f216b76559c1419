"""Rules that make sense of a plan that a weak model wrote."""
