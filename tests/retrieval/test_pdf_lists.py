"""Lists and footnotes: each entry and each note is a line of its own, and neither runs into the text around it."""

from __future__ import annotations

from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.reader import open_pdf
from readahead_retrieval.types import Page
from tests.retrieval import pdf_samples as samples

LIMITS = ReadLimits(timeout_s=30, memory_bytes=512 << 20)
LABELS = [["•", "•", "•"], ["1.", "2.", "10."], ["(a)", "(b)", "(c)"], ["–", "–", "–"]]
ENTRIES = [
    ("Fill the tank with oil, but never above the red mark that is painted", "on its inner wall."),
    ("Trim the wick",),
    ("Wind the clockwork and note the hour",),
]
"""The first is set in two lines, and two end without a full stop."""
NOTES = [
    ("1", "The log book is kept for ten years, and then handed over to the museum", "of the town."),
    ("2", "Founded in 1901."),
]


async def only_page(path: Path) -> Page:
    async with open_pdf(path, LIMITS) as pdf:
        (page,) = [page async for page in pdf.pages()]
    return page


@pytest.mark.parametrize("labels", LABELS, ids=lambda labels: labels[0])
async def test_each_entry_of_a_list_is_a_line_that_begins_with_its_label(tmp_path: Path, labels: list[str]) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 11)
        canvas.drawString(72, 760, "The duties of the evening, in their order:")
        y = 745
        for label, entry in zip(labels, ENTRIES, strict=True):
            canvas.drawString(80, y, label)
            for line in entry:
                canvas.drawString(102, y, line)
                y -= 15
        canvas.drawString(72, y, "Whoever is ill tells the clerk.")

    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert page.text.split("\n") == [
        "The duties of the evening, in their order:",
        *[f"{label} {' '.join(entry)}" for label, entry in zip(labels, ENTRIES, strict=True)],
        "Whoever is ill tells the clerk.",
    ]
    assert page.headings == ()


async def test_footnotes_stand_behind_the_text_each_with_its_mark(tmp_path: Path) -> None:
    body = [
        "The keeper checks the lamp every evening and writes down what was found in the log",
        "that hangs by the door. The harbour office reads it at the end of every month, and its",
        "clerk signs it.",
    ]

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 11)
        for index, line in enumerate(body):
            canvas.drawString(72, 300 - 15 * index, line)
        canvas.line(72, 240, 200, 240)
        y = 228
        for mark, *lines in NOTES:
            canvas.setFont("Helvetica", 5.5)
            canvas.drawString(72, y + 3, mark)
            canvas.setFont("Helvetica", 8)
            for line in lines:
                canvas.drawString(77, y, line)
                y -= 10

    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert page.text.split("\n") == [" ".join(body), *[" ".join(note) for note in NOTES]]
    assert page.headings == ()
