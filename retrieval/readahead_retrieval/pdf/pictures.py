"""How much of a page is drawn and not written: the sign of a scan."""

from __future__ import annotations

import pypdfium2 as pdfium
from pypdfium2 import raw

MAX_OBJECTS = 2_000
_MIN_PATHS = 8
"""A rule or a frame is no content; many paths may be outlined letters."""


def picture_share(page: pdfium.PdfPage) -> float:
    """Share of the page that pictures cover, 0–1; above 0 too where outlines or glyphs without text are drawn."""
    width, height = page.get_size()
    area: float = 0.0
    paths = glyphs = 0
    for index, shape in enumerate(page.get_objects(max_depth=4)):
        if index >= MAX_OBJECTS:
            break
        if shape.type == raw.FPDF_PAGEOBJ_IMAGE:
            left, bottom, right, top = shape.get_bounds()
            area += max(right - left, 0.0) * max(top - bottom, 0.0)
        elif shape.type in (raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_SHADING):
            paths += 1
        elif shape.type == raw.FPDF_PAGEOBJ_TEXT:
            glyphs += 1
    if area > 0 and width > 0 and height > 0:
        return float(min(area / (width * height), 1.0))
    return 0.01 if paths >= _MIN_PATHS or glyphs else 0.0
