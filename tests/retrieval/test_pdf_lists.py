"""Lists, footnotes and headings over tables: each is a line of its own, and none runs into what stands around it."""

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


async def test_a_footnotes_mark_is_set_apart_from_the_word_before_it_with_a_box_of_its_own(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        text = canvas.beginText(72, 300)
        for letters, raised in (
            ("The poet left many works", False),
            ("12", True),
            (" and a house of 300 m", False),
            ("2", True),
            (" in room C40.", False),
            ("3", True),
        ):
            text.setFont("Helvetica", 6.5 if raised else 11)
            text.setRise(4 if raised else 0)
            text.textOut(letters)
        text.setRise(0)
        text.setFont("Helvetica", 11)
        text.setTextOrigin(90, 285)  # a paragraph begins indented
        text.textOut("It stands in Utopia42 still.")
        canvas.drawText(text)

    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert page.text.split("\n") == [
        "The poet left many works ¹² and a house of 300 m2 in room C40. ³",
        "It stands in Utopia42 still.",
    ]
    boxes = {page.text[word.start : word.end]: word.box for word in page.words}
    assert boxes["works"].x1 <= boxes["¹²"].x0 < boxes["¹²"].x1 <= boxes["and"].x0
    assert boxes["¹²"].y1 < boxes["works"].y1


async def test_a_heading_does_not_run_into_the_header_of_the_table_below_it(tmp_path: Path) -> None:
    rows = [
        ("Date in 2031", "What happens"),
        ("1 March to 28 March", "Dredging of the channel"),
        ("3 May", "Old flares"),
    ]

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica-Bold", 17)
        canvas.drawString(45, 760, "15. The year in the harbour")
        for index, row in enumerate(rows):
            canvas.setFont("Helvetica-Bold" if index == 0 else "Helvetica", 11)
            for x, cell in zip((49, 175), row, strict=True):
                canvas.drawString(x, 735 - 20 * index, cell)

    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert page.text.split("\n") == ["15. The year in the harbour", *(" | ".join(row) for row in rows)]
    heading = page.headings[0]
    assert page.text[heading.start : heading.end] == "15. The year in the harbour"
