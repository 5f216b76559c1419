"""What the process does that parses a stranger's file: it is a fork of `forkserver`.

Takes one request, limits itself, and answers in frames. It may die at any moment: the parent reads on from the next
page.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import BinaryIO

import pypdfium2 as pdfium
from pypdfium2 import raw

from readahead_retrieval.errors import DocumentError
from readahead_retrieval.framing import HEADER_BYTES
from readahead_retrieval.pdf import frames
from readahead_retrieval.pdf.clean import clean_line
from readahead_retrieval.pdf.compose import BodyFont, compose
from readahead_retrieval.pdf.forms import field_words, open_forms
from readahead_retrieval.pdf.labels import page_label
from readahead_retrieval.pdf.layout import arrange
from readahead_retrieval.pdf.notes import document_notes
from readahead_retrieval.pdf.outline import read_outline
from readahead_retrieval.pdf.pictures import picture_share
from readahead_retrieval.pdf.quality import FEW_LETTERS, judge
from readahead_retrieval.pdf.render import render_png
from readahead_retrieval.pdf.text import PageTooLarge, extract_words, page_geometry
from readahead_retrieval.pdf.words import turn_upright
from readahead_retrieval.types import PageQuality

MAX_TITLE_CHARACTERS = 200
NICENESS = 5
"""Of whoever reads for an index; who draws a page for somebody that looks at it is not held back. A quarter of a busy
core is left to it, so that the time for a file is enough there too."""

Send = Callable[[frames.Message], None]


def answer(source: BinaryIO, sink: BinaryIO) -> None:
    """Answers the one request that comes from the source."""
    length = frames.FRAMING.body_length(source.read(HEADER_BYTES))
    request = frames.decode_request(source.read(length))
    _limit(request.memory_bytes, request.cpu_seconds)
    if isinstance(request, frames.ReadRequest):
        os.nice(NICENESS)
    send = _sender(sink)
    try:
        with _open(request.path, request.password) as document:
            open_forms(document)
            if isinstance(request, frames.ReadRequest):
                _read(document, request, send)
            elif not 1 <= request.page <= len(document):
                send(frames.Missing())
            else:
                send(frames.Image(render_png(document, request.page, request.width, request.boxes)))
    except DocumentError as error:
        send(frames.Failed(error.code, error.message))
    except MemoryError:
        send(frames.Failed("too_large", "The file needs more memory than a file may take."))
    send(frames.Done())


def _limit(memory_bytes: int, cpu_seconds: int) -> None:
    for kind, limit, beyond in (
        (resource.RLIMIT_AS, memory_bytes, 0),
        # The signal of the soft limit tells the parent what happened; the hard one's is that of a stranger's kill.
        (resource.RLIMIT_CPU, cpu_seconds, 2),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        _, hard = resource.getrlimit(kind)
        highest = limit + beyond if hard == resource.RLIM_INFINITY else min(limit + beyond, hard)
        resource.setrlimit(kind, (min(limit, highest), highest))


def _sender(stream: BinaryIO) -> Send:
    def send(message: frames.Message) -> None:
        stream.write(frames.FRAMING.encode(message))
        stream.flush()

    return send


def _open(path: str, password: str | None) -> pdfium.PdfDocument:
    try:
        return pdfium.PdfDocument(path, password=password)
    except pdfium.PdfiumError as error:
        raise _why(error.err_code, password) from error


def _why(code: int | None, password: str | None) -> DocumentError:
    if code == raw.FPDF_ERR_PASSWORD:
        if password:
            return DocumentError("password_required", "The password does not open the file.")
        return DocumentError("password_required", "The file is locked: give its password, or upload an unlocked copy.")
    if code == raw.FPDF_ERR_SECURITY:
        return DocumentError(
            "unsupported_encryption", "The file is encrypted in a way that cannot be read. Upload an unlocked copy."
        )
    return DocumentError("corrupt", "The file is damaged: its pages cannot be found. Save or export it again.")


def _read(document: pdfium.PdfDocument, request: frames.ReadRequest, send: Send) -> None:
    count = len(document)
    if count > request.max_pages:
        raise DocumentError("too_large", f"The file has {count} pages; at most {request.max_pages} are read.")
    title = clean_line(document.get_metadata_value("Title"))[:MAX_TITLE_CHARACTERS]
    send(frames.Opened(count, title, document_notes(document)))
    reading = _Reading(document)
    for number in range(request.first_page, count + 1):
        send(reading.page(number))


class _Reading:
    """A document, and what is known of it beside the page at hand."""

    def __init__(self, document: pdfium.PdfDocument) -> None:
        self._document = document
        self._outline = read_outline(document)
        self._font = BodyFont()

    def page(self, number: int) -> frames.PageFrame:
        label = page_label(self._document, number)
        try:
            page = self._document[number - 1]
        except pdfium.PdfiumError:
            return _unread(number, label)
        try:
            return self._extract(page, number, label)
        except (pdfium.PdfiumError, PageTooLarge, MemoryError):
            return _unread(number, label)
        finally:
            page.close()

    def _extract(self, page: pdfium.PdfPage, number: int, label: str) -> frames.PageFrame:
        geometry = page_geometry(page)
        textpage = page.get_textpage()
        try:
            found = extract_words(textpage, geometry)
        finally:
            textpage.close()
        # Looking at every drawn object costs more than reading the text, and tells nothing about a page full of text.
        usable = found.visible - found.unusable
        pictures = picture_share(page) if usable < FEW_LETTERS else 0.0
        quality = judge(found.visible, found.unusable, pictures, garbled=found.garbled)
        filled_in = field_words(self._document, page, geometry)
        if filled_in and quality is PageQuality.BLANK:
            quality = PageQuality.OK
        words = found.words + filled_in
        turn_upright(words, geometry.width, geometry.height)
        titles = self._outline.get(number, {})
        composed = compose(arrange(words), geometry.width, geometry.height, self._font, titles)
        return frames.PageFrame(
            number=number,
            label=label,
            text=composed.text,
            words=composed.words,
            headings=composed.headings,
            quality=quality,
            width=geometry.width,
            height=geometry.height,
        )


def _unread(number: int, label: str) -> frames.PageFrame:
    """A page that could not be read; the others can."""
    return frames.PageFrame(number, label, "", [], [], PageQuality.GARBAGE, 0.0, 0.0)
