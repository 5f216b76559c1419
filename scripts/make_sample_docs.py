"""Writes the PDFs of `sample_docs/` from their sources: `python scripts/make_sample_docs.py [--out FOLDER]`.

The same sources give the same bytes (reportlab's invariant mode, seeded noise). The Korean document embeds a subset of
NanumGothic: on Debian and Ubuntu, `apt-get install fonts-nanum`.
"""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from markdown_flowables import INK, Directive, Look, flowables, table
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from reportlab.graphics.charts.barcharts import VerticalBarChart
from reportlab.graphics.charts.legends import Legend
from reportlab.graphics.shapes import Drawing
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4, A5
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    NextPageTemplate,
    PageBreak,
    PageTemplate,
    Paragraph,
    Spacer,
)
from reportlab.platypus.tableofcontents import TableOfContents

ROOT = Path(__file__).resolve().parents[1] / "sample_docs"
SOURCES = ROOT / "sources"
NANUM = Path("/usr/share/fonts/truetype/nanum")
MARGIN = 56.0
AUTHOR = "The Readahead authors"
OnPage = Callable[[Canvas, BaseDocTemplate], None]


def read(name: str) -> str:
    """The text of a source."""
    return (SOURCES / name).read_text("utf-8")


def footer(canvas: Canvas, doc: BaseDocTemplate) -> None:
    """Title on the left, page on the right."""
    canvas.saveState()
    canvas.setFont("Helvetica", 8)
    canvas.setFillColor(colors.HexColor("#6a7885"))
    canvas.drawRightString(doc.pagesize[0] - MARGIN, 30, str(doc.page))
    canvas.restoreState()


def with_subtitle(story: list[Flowable], look: Look) -> list[Flowable]:
    """Sets the paragraph below the title in the subtitle's style."""
    second = story[1]
    assert isinstance(second, Paragraph)
    story[1] = Paragraph(second.text, look.style("subtitle"))
    return story


def new_document(target: Path, title: str, pagesize: tuple[float, float], language: str = "en") -> BaseDocTemplate:
    return BaseDocTemplate(str(target), pagesize=pagesize, title=title, author=AUTHOR, lang=language, invariant=1)


def make_simple(target: Path, source: str, look: Look, language: str = "en") -> None:
    """One column on A4."""
    width = A4[0] - 2 * MARGIN
    text = read(source)
    doc = new_document(target, text.splitlines()[0].removeprefix("# "), A4, language)
    frame = Frame(MARGIN, 50, width, A4[1] - 100, 0, 0, 0, 0)
    doc.addPageTemplates(PageTemplate("page", [frame], onPage=footer))
    doc.build(with_subtitle(list(flowables(text, look, width, {})), look))


def larkspur_chart(_: str) -> list[Flowable]:
    """The figure of the research note."""
    drawing, chart, legend = Drawing(230, 130), VerticalBarChart(), Legend()
    chart.x, chart.y, chart.width, chart.height = 24, 18, 200, 88
    chart.data = [(88, 171, 127), (44, 98, 70), (19, 52, 33)]
    chart.categoryAxis.categoryNames = ["June", "July", "August"]
    chart.valueAxis.valueMin, chart.valueAxis.valueMax, chart.valueAxis.valueStep = 0, 200, 50
    fills = [colors.HexColor(code) for code in ("#b9c4cc", "#6aa3a8", "#1f5f6b")]
    for number, fill in enumerate(fills):
        chart.bars[number].fillColor, chart.bars[number].strokeColor = fill, None
    legend.x, legend.y, legend.columnMaximum, legend.deltax, legend.fontSize = 30, 122, 1, 58, 6.5
    legend.colorNamePairs = list(zip(fills, ("Reference", "Fans", "Fans and roof"), strict=True))
    legend.dx = legend.dy = 6
    for axis in (chart.categoryAxis, chart.valueAxis):
        axis.labels.fontSize = 6.5
    drawing.add(chart)
    drawing.add(legend)
    return [drawing]


def make_two_columns(target: Path, source: str) -> None:
    """A title over two columns, as journals print notes."""
    look = Look("Times-Roman", "Times-Bold", 9.6, justified=True)
    gap, width, text = 20.0, (A4[0] - 2 * MARGIN - 20.0) / 2, read(source)
    doc = new_document(target, text.splitlines()[0].removeprefix("# "), A4)

    def columns(height: float) -> list[Frame]:
        return [Frame(MARGIN + i * (width + gap), 50, width, height, 0, 0, 0, 0) for i in range(2)]

    head = Frame(MARGIN, A4[1] - 150, A4[0] - 2 * MARGIN, 104, 0, 0, 0, 0)
    doc.addPageTemplates(
        [
            PageTemplate("first", [head, *columns(A4[1] - 204)], onPage=footer),
            PageTemplate("later", columns(A4[1] - 100), onPage=footer),
        ]
    )
    story = with_subtitle(list(flowables(text, look, width, {"chart": larkspur_chart})), look)
    doc.build([NextPageTemplate("later"), *story])


def scanned_page(text: str) -> bytes:
    """`text` as a JPEG of a sheet that lay a little askew on the glass of a scanner."""
    random = np.random.default_rng(417)
    sheet = Image.new("L", (1240, 1754), 246)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(34)
    for number, line in enumerate(text.splitlines()):
        indent = 40 * (len(line) - len(line.lstrip())) // 4
        draw.text((130 + indent + int(random.integers(-2, 3)), 140 + 52 * number), line.strip(), fill=40, font=font)
    turned = sheet.rotate(0.9, resample=Image.Resampling.BICUBIC, fillcolor=226).filter(ImageFilter.GaussianBlur(0.8))
    grain = random.normal(0, 7, (1754, 1240)) + np.linspace(0, -14, 1240)
    noisy = Image.fromarray(np.clip(np.asarray(turned, dtype=np.float64) + grain, 0, 255).astype(np.uint8))
    out = io.BytesIO()
    noisy.save(out, "JPEG", quality=60)
    return out.getvalue()


def make_partly_scanned(target: Path, source: str, scan: str) -> None:
    """A page of text, then a page that is only an image."""
    image = ImageReader(io.BytesIO(scanned_page(read(scan))))
    look, width, text = Look(size=9.8), A4[0] - 2 * MARGIN, read(source)
    doc = new_document(target, text.splitlines()[0].removeprefix("# "), A4)
    frame = Frame(MARGIN, 50, width, A4[1] - 100, 0, 0, 0, 0)

    def draw_scan(canvas: Canvas, _: BaseDocTemplate) -> None:
        canvas.drawImage(image, 0, 0, *A4)

    doc.addPageTemplates(
        [PageTemplate("text", [frame], onPage=footer), PageTemplate("scan", [frame], onPage=draw_scan)]
    )
    story = with_subtitle(list(flowables(text, look, width, {})), look)
    doc.build([*story, NextPageTemplate("scan"), PageBreak(), Spacer(1, 1)])


def high_waters(day: date) -> list[tuple[float, float, float, float]]:
    """(hour, height) of each high water of a day and of the low water after it, from two invented constituents."""
    days = (day - date(2031, 1, 1)).days
    period, spring = 12.4206, math.cos(2 * math.pi * (days - 8) / 14.765)
    first = (3.2 + days * (2 * period - 24)) % period
    times = [first + period * i for i in range(2) if first + period * i < 24]
    return [(t, 4.35 + 0.85 * spring, (t + period / 2) % 24, 1.05 - 0.7 * spring) for t in times]


def clock(hours: float) -> str:
    minutes = round(hours * 60) % (24 * 60)
    return f"{minutes // 60:02}:{minutes % 60:02}"


def tides_of_month(month: int, look: Look, width: float) -> list[Flowable]:
    """A heading and a table with a row for each day."""
    day, rows = date(2031, month, 1), [["Day", "High", "m", "Low", "m", "High", "m", "Low", "m"]]
    heading = Paragraph(f"Tides of {day:%B %Y}", look.style("h2"))
    while day.month == month:
        waters = [part for t, h, u, low in high_waters(day) for part in (clock(t), f"{h:.2f}", clock(u), f"{low:.2f}")]
        rows.append([f"{day:%a} {day.day}", *waters, *["-"] * (8 - len(waters))])
        day += timedelta(days=1)
    return [heading, table(rows, Look(size=6.6), width)]


class Handbook(BaseDocTemplate):
    """A5, with roman page labels up to the first chapter, and a table of contents."""

    def afterFlowable(self, flowable: Flowable) -> None:  # noqa: N802 - reportlab's name
        if isinstance(flowable, Paragraph) and flowable.style.name == "h2":
            text = flowable.getPlainText()
            self.canv.bookmarkPage(text)
            self.canv.addOutlineEntry(text, text, 0)
            self.notify("TOCEntry", (0, text, self.page, text))


ROMAN = ("", "ii", "iii", "iv")
FRONT_PAGES = len(ROMAN)


def handbook_label(page: int) -> str:
    """The label printed on a physical page; the title page carries none."""
    return ROMAN[page - 1] if page <= FRONT_PAGES else str(page - FRONT_PAGES)


def handbook_footer(canvas: Canvas, doc: BaseDocTemplate) -> None:
    """The label in the middle; the first page also writes the labels into the file."""
    canvas.saveState()
    canvas.setFont("Helvetica", 8)
    canvas.setFillColor(INK)
    canvas.drawCentredString(doc.pagesize[0] / 2, 24, handbook_label(doc.page))
    canvas.restoreState()
    if doc.page == 1:
        canvas.addPageLabel(0, style="ROMAN_LOWER", start=1)
        canvas.addPageLabel(FRONT_PAGES, style="ARABIC", start=1)


def make_handbook(target: Path, source: str) -> None:
    """The long guide: front matter with roman labels, chapters on pages of their own, an almanac."""
    look, width, text = Look("Times-Roman", "Times-Bold", 12.8, justified=True), A5[0] - 88, read(source)
    doc = Handbook(str(target), pagesize=A5, title=text.splitlines()[0][2:], author=AUTHOR, lang="en", invariant=1)
    doc.addPageTemplates(PageTemplate("page", [Frame(44, 42, width, A5[1] - 84, 0, 0, 0, 0)], onPage=handbook_footer))
    contents = TableOfContents(levelStyles=[look.style("item")], dotsMinLevel=0, formatter=handbook_label)
    directives: dict[str, Directive] = {
        "front": lambda _: [PageBreak(), Paragraph("Contents", look.style("title")), contents, PageBreak()],
        "body": lambda _: [],
        "almanac": lambda _: [part for m in range(1, 13) for part in (PageBreak(), *tides_of_month(m, look, width))],
    }
    story: list[Flowable] = [Spacer(1, 150)]
    for part in flowables(text, look, width, directives):
        starts_chapter = isinstance(part, Paragraph) and part.style.name == "h2" and part.text[0].isdigit()
        story += [PageBreak(), part] if starts_chapter else [part]
    doc.multiBuild(story)


def use_nanum() -> Look:
    """Registers the Korean font; its subset is embedded into the document."""
    for name in ("NanumGothic", "NanumGothicBold"):
        path = NANUM / f"{name}.ttf"
        if not path.exists():
            sys.exit(f"{path} is missing: install the Debian package fonts-nanum (apt-get install fonts-nanum).")
        pdfmetrics.registerFont(TTFont(name, str(path)))
    return Look("NanumGothic", "NanumGothicBold", 10.2)


def make_all(out: Path) -> list[Path]:
    """Writes every document into `out` and returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[Path], None]] = {
        "c40-cold-room-controller-manual": lambda p: make_simple(p, "c40-cold-room-controller-manual.md", Look()),
        "travel-and-expense-policy": lambda p: make_simple(
            p, "travel-and-expense-policy.md", Look("Times-Roman", "Times-Bold", 10.8)
        ),
        "night-ventilation-note": lambda p: make_two_columns(p, "night-ventilation-note.md"),
        "moonlight-library-ko": lambda p: make_simple(p, "moonlight-library-ko.md", use_nanum(), "ko"),
        "site-inspection-report": lambda p: make_partly_scanned(
            p, "site-inspection-report.md", "site-inspection-report.scan.txt"
        ),
        "saltmere-harbour-handbook": lambda p: make_handbook(p, "saltmere-harbour-handbook.md"),
    }
    paths = [out / f"{name}.pdf" for name in makers]
    for path, make in zip(paths, makers.values(), strict=True):
        make(path)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT, help="folder for the PDFs (default: sample_docs)")
    for path in make_all(parser.parse_args().out):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
