"""Draws a page as PNG with the quoted words marked. Runs in the reading process only."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import pypdfium2 as pdfium
from PIL import Image, ImageDraw

MIN_WIDTH = 64
MAX_WIDTH = 3_000
MAX_PIXELS = 12_000_000
"""Of the whole image: a page may be a mile long."""

HIGHLIGHT = (255, 214, 0, 96)
"""A marker's yellow, through which the words stay readable."""


def render_png(document: pdfium.PdfDocument, number: int, width: int, boxes: Sequence[Sequence[float]]) -> bytes:
    """PNG of a 1-based page.

    Args:
        width: Pixels wanted; less where the image would exceed `MAX_PIXELS`.
        boxes: x0, y0, x1, y1 on the shown page, 0–1, origin top left.
    """
    page = document[number - 1]
    try:
        bitmap = page.render(scale=_scale(page.get_size(), width), rev_byteorder=True, limit_image_cache=True)
        image = bitmap.to_pil().convert("RGB")
        bitmap.close()
    finally:
        page.close()
    _mark(image, boxes)
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=3)
    return out.getvalue()


def _scale(size: tuple[float, float], width: int) -> float:
    page_width, page_height = (max(side, 1.0) for side in size)
    wanted = min(max(width, MIN_WIDTH), MAX_WIDTH) / page_width
    scale = min(wanted, math.sqrt(MAX_PIXELS / (page_width * page_height)))
    return scale * (1 - 1e-9)  # PDFium rounds up, and 595 × (400 / 595) is a little more than 400


def _mark(image: Image.Image, boxes: Sequence[Sequence[float]]) -> None:
    draw = ImageDraw.Draw(image, "RGBA")
    for x0, y0, x1, y1 in boxes:
        # A pixel of margin: the box is as tight as the ink, and a marker is not.
        left, top = math.floor(x0 * image.width) - 1, math.floor(y0 * image.height) - 1
        right, bottom = math.ceil(x1 * image.width) + 1, math.ceil(y1 * image.height) + 1
        if right > left and bottom > top:
            draw.rectangle((left, top, right, bottom), fill=HIGHLIGHT)
