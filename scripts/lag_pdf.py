"""The PDF that `measure_gateway_lag.py` has ingested."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from reportlab.pdfgen.canvas import Canvas

WORDS = ["valve", "pump", "frame", "pressure", "gasket", "bearing", "winter", "office", "harbour", "ledger", "tenant"]
WORDS += ["invoice", "meadow", "turbine", "journal", "archive", "committee", "weather", "signal", "copper", "granite"]
WORDS += ["railway", "minister", "harvest", "orchard", "syllable", "meridian", "cathedral"]
FACTS = ("The pump weighs 41 kilograms without its frame.", "The oil is changed after 600 hours of work.")


def pages(count: int) -> Iterator[Sequence[str]]:
    """Some 500 words each, in sentences, no two pages alike."""
    chooser = random.Random(7)
    for _ in range(count):
        yield [f"{' '.join(chooser.choices(WORDS, k=12)).capitalize()}." for _ in range(42)]


def write_pdf(path: Path, pages: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> None:
    canvas = Canvas(str(path), pagesize=(595, 842))
    for lines in pages:
        canvas.setFont("Helvetica", 8)
        for number, line in enumerate(lines):
            canvas.drawString(40, 800 - 18 * number, line)
        canvas.showPage()
    canvas.save()
