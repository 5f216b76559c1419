"""Documents in, evidence out: PDF reading, chunks, indexes, search and citations."""
