"""Small PDFs for the tests, written on the spot: each shows one property."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pypdfium2 as pdfium
from PIL import Image
from pypdf import PdfReader, PdfWriter
from pypdf.constants import PageLabelStyle
from pypdf.generic import DictionaryObject, NameObject, RectangleObject
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

A4 = (595.0, 842.0)
A3 = (842.0, 1191.0)

LEFT_COLUMN = (
    "The river rises in the northern hills and runs for ninety miles to the sea. "
    "Its upper course is narrow and fast, and the mills that stood there took their power from the fall. "
    "Below the second weir the valley opens and the water slows between meadows of reed and willow. "
)
RIGHT_COLUMN = (
    "Barges carried slate and wool down to the harbour until the railway came in the year 1867. "
    "The lock keepers kept a journal of every boat that passed, and the volumes are held by the county. "
    "Most of them can be read today, though the damp has taken the first pages of the oldest one. "
)

Draw = Callable[[Canvas], None]


def write_pdf(path: Path, *pages: Draw, size: tuple[float, float] = A4) -> Path:
    """One page for each function that draws."""
    canvas = Canvas(str(path), pagesize=size)
    for draw in pages:
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return path


def lines(*texts: str, size: float = 11, font: str = "Helvetica", x: float = 72, y: float = 760) -> Draw:
    """Lines of text from the top of an A4 page downwards."""

    def draw(canvas: Canvas) -> None:
        canvas.setFont(font, size)
        for index, text in enumerate(texts):
            canvas.drawString(x, y - index * size * 1.3, text)

    return draw


def blank(canvas: Canvas) -> None:
    """A page on which nothing is drawn."""


def wrapped(text: str, width: float, *, font: str = "Times-Roman", size: float = 10) -> list[str]:
    """The text in lines of at most `width` points."""
    out: list[str] = [""]
    for word in text.split():
        longer = f"{out[-1]} {word}".strip()
        if stringWidth(longer, font, size) > width:
            out.append(word)
        else:
            out[-1] = longer
    return out


def two_columns(canvas: Canvas) -> None:
    """A title over two columns, drawn line by line across both: only the boxes tell the reading order."""
    canvas.setFont("Times-Bold", 18)
    canvas.drawString(72, 780, "A short history of the river")
    canvas.setFont("Times-Roman", 10)
    left, right = wrapped(LEFT_COLUMN * 2, 215), wrapped(RIGHT_COLUMN * 2, 215)
    for index in range(max(len(left), len(right))):
        y = 740 - 12 * index
        if index < len(left):
            canvas.drawString(72, y, left[index])
        if index < len(right):
            canvas.drawString(310, y, right[index])


def table(rows: Sequence[Sequence[str]], *, title: str = "", column_width: float = 110) -> Draw:
    """A table with nothing but its position to tell its cells apart."""

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 10)
        canvas.drawString(72, 780, title)
        for index, row in enumerate(rows):
            for column, cell in enumerate(row):
                canvas.drawString(72 + column * column_width, 750 - 16 * index, cell)

    return draw


def turned(path: Path, source: Path, rotation: int) -> Path:
    """The same pages with /Rotate."""
    writer = PdfWriter(clone_from=PdfReader(source))
    for page in writer.pages:
        page.rotate(rotation)
    writer.write(path)
    return path


def cropped(path: Path, source: Path, box: tuple[float, float, float, float], *, rotation: int = 0) -> Path:
    """The same pages with a crop box (left, bottom, right, top) inside the media box."""
    writer = PdfWriter(clone_from=PdfReader(source))
    for page in writer.pages:
        page.cropbox = RectangleObject(box)
        page.rotate(rotation)
    writer.write(path)
    return path


def labelled(path: Path, source: Path, roman: int) -> Path:
    """The first `roman` pages labelled i, ii, …, the rest 1, 2, …."""
    writer = PdfWriter(clone_from=PdfReader(source))
    writer.set_page_label(0, roman - 1, style=PageLabelStyle.LOWERCASE_ROMAN)
    writer.set_page_label(roman, len(writer.pages) - 1, style=PageLabelStyle.DECIMAL)
    writer.write(path)
    return path


def with_attachments(path: Path, source: Path, *names: str) -> Path:
    """The same pages, and files that are attached to them."""
    writer = PdfWriter(clone_from=PdfReader(source))
    for name in names:
        writer.add_attachment(name, b"%PDF-1.7 attached")
    writer.write(path)
    return path


def with_looped_outline(path: Path, source: Path) -> Path:
    """The same outline, its last entry followed by its first."""
    writer = PdfWriter(clone_from=PdfReader(source))
    outline = cast(DictionaryObject, writer.root_object["/Outlines"])
    parent = cast(DictionaryObject, outline["/First"])
    last = cast(DictionaryObject, parent["/Last"])
    last[NameObject("/Next")] = parent.raw_get("/First")
    writer.write(path)
    return path


def locked(path: Path, source: Path, *, user: str, owner: str) -> Path:
    """Encrypted with AES-256; an empty user password opens without asking."""
    writer = PdfWriter(clone_from=PdfReader(source))
    writer.encrypt(user_password=user, owner_password=owner, algorithm="AES-256")
    writer.write(path)
    return path


def picture_of_text(canvas: Canvas) -> None:
    """A full-page picture, as a scanner makes it."""
    image = Image.effect_noise((300, 420), 60).convert("RGB")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    buffer.seek(0)
    canvas.drawImage(ImageReader(buffer), 0, 0, *A4)


def raw_pdf(path: Path, contents: Sequence[bytes], *, objects: Sequence[bytes] = (), resources: bytes = b"") -> Path:
    """A PDF of pages with these content streams, written by hand; `objects` are numbered from 100 on."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    numbered: dict[int, bytes] = {1: b"<< /Type /Catalog /Pages 2 0 R >>", 3: font}
    kids = []
    for index, content in enumerate(contents):
        page, stream = 10 + 2 * index, 11 + 2 * index
        kids.append(b"%d 0 R" % page)
        numbered[page] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> %b >> >>" % (stream, resources)
        )
        numbered[stream] = content if content.startswith(b"<<") else _stream(content)
    numbered[2] = b"<< /Type /Pages /Count %d /Kids [%b] >>" % (len(kids), b" ".join(kids))
    numbered.update({100 + index: body for index, body in enumerate(objects)})
    path.write_bytes(_assembled(numbered))
    return path


def _stream(content: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content)


def _assembled(numbered: dict[int, bytes]) -> bytes:
    out = bytearray(b"%PDF-1.7\n")
    offsets = {}
    for number, body in sorted(numbered.items()):
        offsets[number] = len(out)
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 1\n0000000000 65535 f \n"
    for number, offset in offsets.items():
        out += b"%d 1\n%010d 00000 n \n" % (number, offset)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (max(numbered) + 1, start)
    return bytes(out)


def text_content(text: str) -> bytes:
    return b"BT /F1 12 Tf 72 700 Td (%b) Tj ET" % text.encode("ascii")


def lines_content(texts: Sequence[str]) -> bytes:
    """A content stream of lines in Latin-1, whatever characters they hold."""
    shown = (b"<%b> Tj T*" % text.encode("latin-1").hex().encode() for text in texts)
    return b"BT /F1 10 Tf 12 TL 72 760 Td %b ET" % b"\n".join(shown)


def form(canvas: Canvas) -> None:
    """Two lines of text, each with a field beside it, a box that is ticked and one that is not."""
    canvas.setFont("Helvetica", 11)
    for y, label, value in ((700, "Name of the applicant", "Ada Lovelace"), (660, "Profession", "Mathematician")):
        canvas.drawString(72, y, label)
        canvas.acroForm.textfield(
            name=label, value=value, x=250, y=y - 6, width=200, height=20, fontSize=11, borderWidth=0, fillColor=None
        )
    for y, label, ticked in ((620, "Member of the society", True), (590, "Wants a newsletter", False)):
        canvas.drawString(72, y, label)
        canvas.acroForm.checkbox(name=label, checked=ticked, x=250, y=y - 4, size=14, buttonStyle="check")


def bomb_content(size: int) -> bytes:
    """A content stream of a few hundred kilobytes that unpacks to `size` bytes."""
    packer = zlib.compressobj(9)
    block = b"BT /F1 1 Tf (x) Tj ET " * 50_000
    body = b"".join(packer.compress(block) for _ in range(size // len(block))) + packer.flush()
    return b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(body), body)


def endless_objects(depth: int) -> list[bytes]:
    """Forms that each draw the one before ten times: ten to the power of `depth` words in all."""
    objects = []
    for level in range(depth):
        content = b"/X Do " * 10 if level else b"BT /F1 8 Tf 72 400 Td (again) Tj ET"
        inner = b"/XObject << /X %d 0 R >>" % (99 + level) if level else b""
        objects.append(
            b"<< /Type /XObject /Subtype /Form /BBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> %b >> "
            b"/Length %d >>\nstream\n%b\nendstream" % (inner, len(content), content)
        )
    return objects


def scanned(path: Path, source: Path, *, turn: int = 0, dots_per_inch: int = 200) -> Path:
    """The same pages as pictures without a text layer, as a scanner makes them; `turn` degrees anticlockwise."""
    document = pdfium.PdfDocument(source)
    canvas = Canvas(str(path))
    for page in document:
        image = page.render(scale=dots_per_inch / 72).to_pil().convert("L").rotate(turn, expand=True)
        size = (image.width * 72 / dots_per_inch, image.height * 72 / dots_per_inch)
        canvas.setPageSize(size)
        canvas.drawImage(ImageReader(image), 0, 0, *size)
        canvas.showPage()
    canvas.save()
    document.close()
    return path
