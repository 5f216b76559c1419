"""Where a passage stands, as the API tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from readahead_retrieval.boxes import Line


def line_objects(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Each line of a passage: its page, and its box as citations have theirs."""
    return [{"page": line.page, **asdict(line.box)} for line in lines]
