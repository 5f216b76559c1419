"""Which reader read a document."""

from __future__ import annotations

READER_VERSION = 1
"""Raised with every change after which the same file gives another text, other boxes or other headings: documents of
an older version are told to be outdated until they are read anew. 0 is every reader from before versions were kept."""
