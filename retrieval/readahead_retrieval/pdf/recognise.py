"""Reads by text recognition what has no usable text layer, page by page, in the order of the pages."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from readahead_retrieval.errors import DocumentError
from readahead_retrieval.flat_words import FlatWords
from readahead_retrieval.pdf.clean import clean_line
from readahead_retrieval.pdf.compose import BodyFont, compose
from readahead_retrieval.pdf.geometry import Rect
from readahead_retrieval.pdf.images import PageImage, render_page
from readahead_retrieval.pdf.layout import arrange
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.ocr import NoOcr, OcrEngine, OcrFailed, OcrWord
from readahead_retrieval.pdf.readers import Readers
from readahead_retrieval.pdf.tesseract import Tesseract, TesseractMissing
from readahead_retrieval.pdf.words import RawWord, turn_upright
from readahead_retrieval.types import Box, Page, PageQuality

log = logging.getLogger(__name__)

DOTS_PER_POINT = 300 / 72
"""Tesseract is trained on letters of about 30 pixels, which body text has at 300 dots per inch."""
MIN_CONFIDENCE = 0.55
"""Of a page's words on average; below it they are the shapes of a picture rather than letters."""
MIN_WORD_CONFIDENCE = 0.2
_UNREAD = frozenset({PageQuality.NEEDS_OCR, PageQuality.GARBAGE})


@dataclass(frozen=True, slots=True)
class Recognition:
    """How pages without usable text are read."""

    engine: OcrEngine
    max_pages: int
    """Of one file; the others stay unread."""


def find_recognition(languages: Sequence[str], *, enabled: bool, max_pages: int, page_timeout_s: float) -> Recognition:
    """What this machine can do; looks for Tesseract, and so blocks for a moment."""
    if not enabled:
        return Recognition(NoOcr("Text recognition is switched off: set retrieval.ocr to auto."), max_pages)
    try:
        return Recognition(Tesseract.find(languages, timeout_s=page_timeout_s), max_pages)
    except TesseractMissing as missing:
        return Recognition(NoOcr(str(missing)), max_pages)


async def with_recognised(
    pages: AsyncIterator[Page],
    recognition: Recognition,
    path: Path,
    limits: ReadLimits,
    password: str | None,
    readers: Readers,
) -> AsyncIterator[Page]:
    """The same pages; those judged `needs_ocr` or `garbage` with the text that the engine finds."""
    left = 0 if recognition.engine.missing else recognition.max_pages
    async for page in pages:
        if left and page.quality in _UNREAD and page.width > 0:
            left -= 1
            width = max(round(page.width * DOTS_PER_POINT), 1)
            image = PageImage(path, page.number, (), width, password)
            page = await _recognised(page, recognition.engine, image, limits, readers)
        yield page


async def _recognised(page: Page, engine: OcrEngine, image: PageImage, limits: ReadLimits, readers: Readers) -> Page:
    try:
        words = await _read(engine, await render_page(image, limits, readers))
    except (DocumentError, OcrFailed) as failure:
        log.warning("Page %d was not recognised: %s", page.number, failure)
        return page
    return await asyncio.to_thread(_written, page, words) if words else page


async def _read(engine: OcrEngine, png: bytes) -> Sequence[OcrWord]:
    """Words that are worth having; none where the picture shows no text."""
    words = await engine.recognise(png)
    if not words or _confidence(words) >= MIN_CONFIDENCE:
        return words
    # Engines that know a page on its side are still unsure of one on its head.
    turned = await engine.recognise(await asyncio.to_thread(_on_its_head, png))
    return [_turned_back(word) for word in turned] if turned and _confidence(turned) >= MIN_CONFIDENCE else ()


def _on_its_head(png: bytes) -> bytes:
    out = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.transpose(Image.Transpose.ROTATE_180).save(out, "PNG", compress_level=1)
    return out.getvalue()


def _turned_back(word: OcrWord) -> OcrWord:
    box = word.box
    return replace(word, box=Box(1 - box.x1, 1 - box.y1, 1 - box.x0, 1 - box.y0), turn=(word.turn + 180) % 360)


def _confidence(words: Sequence[OcrWord]) -> float:
    letters = sum(len(word.text) for word in words)
    return sum(word.confidence * len(word.text) for word in words) / letters


def _written(page: Page, words: Sequence[OcrWord]) -> Page:
    """The page with the words laid out as those of a text layer are."""
    sure = [word for word in words if word.confidence >= MIN_WORD_CONFIDENCE]
    raw = [word for word in _raw(sure, page) if word.text]
    turn_upright(raw, page.width, page.height)
    composed = compose(arrange(raw), page.width, page.height, BodyFont())
    if not composed.text:
        return page
    # Heights of recognised lines follow their letters too closely to tell headings.
    return replace(
        page, text=composed.text, words=FlatWords(composed.words), headings=(), quality=PageQuality.RECOGNISED
    )


def _raw(words: Sequence[OcrWord], page: Page) -> list[RawWord]:
    last_of_line = {word.line: index for index, word in enumerate(words)}
    return [_raw_word(word, page, ends_line=last_of_line[word.line] == index) for index, word in enumerate(words)]


def _raw_word(word: OcrWord, page: Page, *, ends_line: bool) -> RawWord:
    hyphenated = ends_line and len(word.text) > 1 and word.text.endswith("-")
    box = word.box
    rect = Rect(box.x0 * page.width, box.y0 * page.height, box.x1 * page.width, box.y1 * page.height)
    return RawWord(
        text=clean_line(word.text.rstrip("-") if hyphenated else word.text),
        shown=rect,
        box=rect,
        size=word.line_height * page.height,
        bold=False,
        turn=word.turn,
        glued=word.glued,
        hyphenated=hyphenated,
    )
