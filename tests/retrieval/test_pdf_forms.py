"""What is filled into a form is read where it stands."""

from __future__ import annotations

from pathlib import Path

from reportlab.pdfgen.canvas import Canvas

from readahead_retrieval.pdf.images import PageImage, render_page
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.reader import open_pdf
from readahead_retrieval.types import Page, PageQuality
from tests.retrieval import pdf_samples as samples
from tests.retrieval.reading import covered, to_pixels

LIMITS = ReadLimits(timeout_s=30, memory_bytes=512 << 20)


async def only_page(path: Path) -> Page:
    async with open_pdf(path, LIMITS) as pdf:
        (page,) = [page async for page in pdf.pages()]
    return page


async def test_values_stand_beside_their_labels(tmp_path: Path) -> None:
    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", samples.form))
    assert page.text.split("\n") == [
        "Name of the applicant | Ada Lovelace",
        "Profession | Mathematician",
        "Member of the society | [x]",
        "Wants a newsletter",
    ]


async def test_a_form_without_any_other_text_is_not_blank(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.acroForm.textfield(name="note", value="Only this.", x=72, y=600, width=200, height=20)

    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert (page.text, page.quality) == ("Only this.", PageQuality.OK)


async def test_values_are_drawn_and_their_boxes_hold_the_ink(tmp_path: Path) -> None:
    source = samples.write_pdf(tmp_path / "a.pdf", samples.form)
    path = samples.turned(tmp_path / "b.pdf", source, 90)
    page = await only_page(path)
    assert page.text == (await only_page(source)).text
    image = to_pixels(await render_page(PageImage(path, 1, (), 1200), LIMITS))
    ink = image.min(axis=2) < 128
    for word in page.words:
        text = page.text[word.start : word.end]
        assert ink[covered(ink.shape, [word.box], margin=0)].any(), text
