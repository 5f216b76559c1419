"""How the cost of an answer grows with what is asked, held and shared."""
