"""How fast and how true to float32 texts are embedded, beside sentence-transformers."""
