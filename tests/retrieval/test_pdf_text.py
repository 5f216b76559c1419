"""What is written on a page, in the order in which a person reads it."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas

from readahead_retrieval.pdf.clean import clean_line, clean_word, keeps_hyphen
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.quality import judge
from readahead_retrieval.pdf.reader import open_pdf
from readahead_retrieval.types import Page, PageQuality
from tests.retrieval import pdf_samples as samples

LIMITS = ReadLimits(timeout_s=30, memory_bytes=512 << 20)


async def only_page(path: Path) -> Page:
    async with open_pdf(path, LIMITS) as pdf:
        (page,) = [page async for page in pdf.pages()]
    return page


def squeezed(text: str) -> str:
    return " ".join(text.split())


def headings(page: Page) -> list[tuple[str, int]]:
    return [(page.text[heading.start : heading.end], heading.level) for heading in page.headings]


async def test_two_columns_are_read_one_after_the_other(tmp_path: Path) -> None:
    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", samples.two_columns))
    read = squeezed(page.text)
    assert read.startswith("A short history of the river")
    assert squeezed(samples.LEFT_COLUMN * 2) in read
    assert squeezed(samples.RIGHT_COLUMN * 2) in read
    assert read.index("northern hills") < read.index("oldest one")


async def test_the_cells_of_a_row_stay_on_one_line(tmp_path: Path) -> None:
    rows = [("Model", "Power", "Weight"), ("R-100", "450 W", "3.2 kg"), ("R-200", "900 W", "5.1 kg")]
    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", samples.table(rows, title="Ratings")))
    assert page.text.split("\n") == [
        "Ratings",
        "Model | Power | Weight",
        "R-100 | 450 W | 3.2 kg",
        "R-200 | 900 W | 5.1 kg",
    ]


async def test_numbers_in_narrow_columns_do_not_run_together(tmp_path: Path) -> None:
    rows = [("Alabama", "18", "0", "14"), ("Alaska", "2", "9", "100")]
    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", samples.table(rows, column_width=60)))
    assert page.text.strip().split("\n") == ["Alabama | 18 | 0 | 14", "Alaska | 2 | 9 | 100"]


async def test_a_heading_in_the_margin_does_not_break_the_text_beside_it(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Times-Roman", 10)
        for index, line in enumerate(("2.3.59", "Command code", "Overview")):
            canvas.drawString(72, 700 - 12 * index, line)
        for index, line in enumerate(samples.wrapped(samples.LEFT_COLUMN, 300)):
            canvas.drawString(200, 700 - 12 * index, line)

    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert squeezed(samples.LEFT_COLUMN) in squeezed(page.text)
    assert "2.3.59 Command code Overview" in squeezed(page.text)
    assert "|" not in page.text, "it is no row of a table"


async def test_lines_of_a_paragraph_are_joined_and_paragraphs_are_not(tmp_path: Path) -> None:
    first, second = samples.wrapped(samples.LEFT_COLUMN, 400), samples.wrapped(samples.RIGHT_COLUMN, 400)

    def draw(canvas: Canvas) -> None:
        samples.lines(*first, size=10, font="Times-Roman", y=760)(canvas)
        samples.lines(*second, size=10, font="Times-Roman", y=680)(canvas)

    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert page.text.split("\n") == [squeezed(samples.LEFT_COLUMN), squeezed(samples.RIGHT_COLUMN)]


async def test_a_number_at_the_start_of_a_line_belongs_to_the_sentence_above(tmp_path: Path) -> None:
    first = ("Use four lines of your own, at least 14 mm thick for boats above", "9 m, with springs.")
    second = ("The club is named in the reports of the harbour board.[12]", "16 members have left it.")
    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", samples.lines(*first, *second)))
    assert page.text.split("\n") == [" ".join(first), *second]


async def test_a_sentence_goes_on_below_a_line_with_one_bold_word(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        above, below = "The record of the race was set in the year 2024 by", "dark wins a salted ham."
        samples.lines(above, "", below, "", "", *samples.wrapped(samples.LEFT_COLUMN, 400), y=760)(canvas)
        line = canvas.beginText(72, 760 - 11 * 1.3)
        for font, words in (
            ("Helvetica", "the cutter "),
            ("Helvetica-Bold", "Marigold"),
            ("Helvetica", ". Who comes by"),
        ):
            line.setFont(font, 11)
            line.textOut(words)
        canvas.drawText(line)

    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert page.text.split("\n")[0] == (
        "The record of the race was set in the year 2024 by the cutter Marigold. Who comes by dark wins a salted ham."
    )
    assert page.headings == ()


async def test_a_cell_that_goes_on_with_a_figure_is_one_cell(tmp_path: Path) -> None:
    rows = [("E15", "Probe broken", "Replace it"), ("E21", "Memory of the log damaged", "Format the log in menu")]

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 10)
        for index, row in enumerate(rows):
            for column, cell in enumerate(row):
                canvas.drawString(72 + column * 150, 750 - 18 * index, cell)
        canvas.drawString(72 + 2 * 150, 750 - 18 - 12, "9 or in menu 10")
        for column, cell in enumerate(("E30", "Battery empty", "Replace it")):
            canvas.drawString(72 + column * 150, 750 - 18 * 3, cell)

    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert page.text.split("\n") == [
        "E15 | Probe broken | Replace it",
        "E21 | Memory of the log damaged | Format the log in menu 9 or in menu 10",
        "E30 | Battery empty | Replace it",
    ]


async def test_a_word_broken_at_the_end_of_a_line_is_whole_again(tmp_path: Path) -> None:
    draw = samples.lines(
        "The mill gave work to the inhabi-", "tants of the valley, and the well-", "Known inn stood by it."
    )
    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert page.text == "The mill gave work to the inhabitants of the valley, and the well-Known inn stood by it."
    parts = [page.text[word.start : word.end] for word in page.words]
    assert parts[parts.index("inhabi") + 1] == "tants", "each part keeps its own box"


async def test_headings_are_told_by_size_and_weight(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        samples.lines("Warranty terms", size=22, y=780)(canvas)
        samples.lines("Scope", size=14, y=740)(canvas)
        samples.lines("Repairs at home", size=10, font="Helvetica-Bold", y=715)(canvas)
        body = samples.wrapped(samples.LEFT_COLUMN, 400, font="Helvetica", size=10)
        samples.lines(*body, size=10, y=700)(canvas)

    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert headings(page) == [("Warranty terms", 1), ("Scope", 2), ("Repairs at home", 3)]


async def test_the_outline_names_headings_that_look_like_text(tmp_path: Path) -> None:
    body = samples.wrapped(samples.LEFT_COLUMN, 400, font="Helvetica")

    def draw(canvas: Canvas) -> None:
        samples.lines("Locks and weirs", size=9, y=810)(canvas)
        samples.lines("2.1 Locks and weirs", "", *body, "", "Keepers", "", *body, y=760)(canvas)
        for key, title, level in (("a", "The river", 0), ("b", "Locks and weirs", 1), ("c", "Keepers", 1)):
            canvas.bookmarkPage(key)
            canvas.addOutlineEntry(title, key, level)

    source = samples.write_pdf(tmp_path / "a.pdf", draw)
    assert headings(await only_page(source)) == [("2.1 Locks and weirs", 2), ("Keepers", 2)]
    looped = samples.with_looped_outline(tmp_path / "b.pdf", source)
    assert headings(await only_page(looped))[0] == ("2.1 Locks and weirs", 2)


async def test_a_text_that_is_bold_throughout_has_no_bold_headings(tmp_path: Path) -> None:
    body = samples.wrapped(samples.LEFT_COLUMN, 300, font="Helvetica-Bold")
    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", samples.lines(*body, font="Helvetica-Bold")))
    assert headings(page) == []


async def test_words_drawn_twice_to_look_bold_are_read_once(tmp_path: Path) -> None:
    words = samples.LEFT_COLUMN.split()[:16]

    def draw(canvas: Canvas) -> None:
        for offset in (0.0, 0.3, 0.6):
            for index, word in enumerate(words):
                canvas.drawString(72 + 70 * (index % 4) + offset, 700 - 20 * (index // 4), word)

    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert [word for word in page.text.split() if word != "|"] == words


async def test_a_word_said_twice_is_read_twice(tmp_path: Path) -> None:
    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", samples.lines("that that", "that")))
    assert page.text.split() == ["that", "that", "that"]


async def test_text_along_the_margin_does_not_mix_with_the_lines(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        samples.lines(*samples.wrapped(samples.LEFT_COLUMN, 400), size=10, font="Times-Roman")(canvas)
        canvas.rotate(90)
        canvas.drawString(650, -30, "Draft of May 2024")

    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert page.text == f"{squeezed(samples.LEFT_COLUMN)}\nDraft of May 2024"


@pytest.mark.parametrize("rotation", [90, 180, 270])
async def test_a_page_shown_on_its_side_reads_like_an_upright_one(tmp_path: Path, rotation: int) -> None:
    source = samples.write_pdf(tmp_path / "a.pdf", samples.two_columns)
    page = await only_page(samples.turned(tmp_path / "b.pdf", source, rotation))
    assert page.text == (await only_page(source)).text


@pytest.mark.parametrize("rotation", [90, 180, 270])
async def test_a_page_turned_to_be_shown_upright_reads_as_shown(tmp_path: Path, rotation: int) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.translate(*{90: (595, 0), 180: (595, 842), 270: (0, 842)}[rotation])
        canvas.rotate({90: 90, 180: 180, 270: 270}[rotation])
        samples.lines("First line of a wide page.", "Second line.", y=500)(canvas)

    source = samples.write_pdf(tmp_path / "a.pdf", draw)
    page = await only_page(samples.turned(tmp_path / "b.pdf", source, rotation))
    assert page.text == "First line of a wide page. Second line."
    first = page.words[0].box
    assert first.x0 < 0.2
    assert first.x1 - first.x0 > first.y1 - first.y0


async def test_korean_is_read_in_nfc_with_its_spaces(tmp_path: Path) -> None:
    pdfmetrics.registerFont(UnicodeCIDFont("HYSMyeongJo-Medium"))
    draw = samples.lines("이 규정은 재택근무에 적용된다.", font="HYSMyeongJo-Medium")
    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert page.text == "이 규정은 재택근무에 적용된다."
    assert unicodedata.is_normalized("NFC", page.text)


async def test_control_characters_do_not_reach_the_text(tmp_path: Path) -> None:
    content = rb"BT /F1 12 Tf 72 700 Td (Ab\000cd \001\002ef and a good deal of ordinary text) Tj ET"
    page = await only_page(samples.raw_pdf(tmp_path / "a.pdf", [content]))
    assert page.text == clean_line(page.text)
    assert page.text.endswith("and a good deal of ordinary text")
    assert [page.text[word.start : word.end] for word in page.words] == page.text.split()


async def test_leaders_of_a_table_of_contents_are_shortened(tmp_path: Path) -> None:
    draw = samples.lines("Introduction" + "." * 80 + "7")
    page = await only_page(samples.write_pdf(tmp_path / "a.pdf", draw))
    assert page.text == "Introduction...7"


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("ﬁnal", "final"),
        ("eﬀect", "effect"),
        ("a\x00b", "ab"),
        ("\ud800x", "x"),
        ("inter\u00ad", "inter"),
        ("inter\ufffe", "inter"),
        ("\u1112\u1161\u11ab", "한"),
        ("\ufe8d\ufedf\ufef4\ufeee\ufee1", "اليوم"),
        ("\uf0b7", "•"),
        ("zero\u200bwidth", "zerowidth"),
        ("\u00a0", ""),
        ("x²", "x²"),
    ],
)
def test_a_word_is_cleaned(raw: str, clean: str) -> None:
    assert clean_word(raw) == clean


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_cleaned_text_can_be_stored_and_cleaning_it_again_changes_nothing(raw: str) -> None:
    text = clean_line(raw)
    text.encode("utf-8")
    assert "\x00" not in text
    assert unicodedata.is_normalized("NFC", text)
    assert clean_line(text) == text


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("inter", "national", False),
        ("COVID", "19", True),
        ("Kobe", "Osaka", True),
        ("state-of-the", "art", True),
        ("감염", "병", True),
    ],
)
def test_the_hyphen_of_a_compound_stays(first: str, second: str, kept: bool) -> None:
    assert keeps_hyphen(first, second) is kept


@pytest.mark.parametrize(
    ("visible", "unusable", "pictures", "quality"),
    [
        (2000, 0, 0.0, PageQuality.OK),
        (2000, 100, 0.9, PageQuality.OK),
        (2000, 900, 0.0, PageQuality.GARBAGE),
        (2000, 340, 0.0, PageQuality.GARBAGE),
        (12, 0, 0.95, PageQuality.NEEDS_OCR),
        (12, 0, 0.1, PageQuality.OK),
        (0, 0, 0.4, PageQuality.NEEDS_OCR),
        (0, 0, 0.0, PageQuality.BLANK),
    ],
)
def test_a_page_is_judged(visible: int, unusable: int, pictures: float, quality: PageQuality) -> None:
    assert judge(visible, unusable, pictures) is quality
