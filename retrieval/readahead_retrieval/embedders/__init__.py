"""Implementations of the `Embedder` seam."""
