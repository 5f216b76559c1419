"""Where texts stand on their pages, as the API tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from readahead_retrieval.boxes import Line
from readahead_retrieval.types import Box


def box_numbers(box: Box) -> list[float]:
    """x0, y0, x1, y1."""
    return [round(value, 5) for value in (box.x0, box.y0, box.x1, box.y1)]


def line_objects(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Each line of a passage, with its page."""
    return [{"page": line.page, "box": box_numbers(line.box)} for line in lines]
