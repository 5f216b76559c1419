"""Workloads of retrieval for `readahead bench`."""
