"""Pages without a usable text layer: read by text recognition where it is installed, listed as unread where not."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from readahead_retrieval.pdf.images import PageImage, render_page
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.ocr import NoOcr, OcrEngine, OcrFailed, OcrWord
from readahead_retrieval.pdf.quality import document_error
from readahead_retrieval.pdf.reader import open_pdf
from readahead_retrieval.pdf.recognise import Recognition, find_recognition
from readahead_retrieval.pdf.tesseract import Tesseract
from readahead_retrieval.types import Box, DocumentState, Page, PageQuality
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, add, opened
from tests.retrieval.reading import children, covered, processes_of, started, to_pixels

LIMITS = ReadLimits(timeout_s=60, memory_bytes=512 << 20)
SENTENCES = ("The river rises in the northern hills", "and runs for ninety miles to the sea.")

needs_tesseract = pytest.mark.skipif(shutil.which("tesseract") is None, reason="Tesseract is not installed")


async def read(path: Path, engine: OcrEngine, *, max_pages: int = 10, first_page: int = 1) -> list[Page]:
    recognition = Recognition(engine, max_pages)
    async with open_pdf(path, LIMITS, recognition=recognition, first_page=first_page) as pdf:
        return [page async for page in pdf.pages()]


def letter(path: Path) -> Path:
    return samples.write_pdf(path, samples.lines(*SENTENCES, size=14))


class Reads:
    """An engine that reads the same word on every picture."""

    missing = ""

    def __init__(self, confidence: float = 0.9) -> None:
        self.pictures = 0
        self._confidence = confidence

    async def recognise(self, png: bytes) -> Sequence[OcrWord]:
        assert png.startswith(b"\x89PNG")
        self.pictures += 1
        return [OcrWord("word", Box(0.25, 0.5, 0.5, 0.52), 0, 0.02, 0, False, self._confidence)]


@needs_tesseract
@pytest.mark.parametrize("turn", [0, 90, 180, 270])
async def test_a_scan_is_read_and_its_words_are_where_the_ink_is(tmp_path: Path, turn: int) -> None:
    path = samples.scanned(tmp_path / "scan.pdf", letter(tmp_path / "a.pdf"), turn=turn)
    (page,) = await read(path, Tesseract.find(["eng"]))
    assert page.quality is PageQuality.RECOGNISED
    assert page.text == " ".join(SENTENCES)
    ink = to_pixels(await render_page(PageImage(path, 1, (), 1200), LIMITS)).min(axis=2) < 128
    assert not (ink & ~covered(ink.shape, [word.box for word in page.words], margin=4)).any()
    for word in page.words:
        assert ink[covered(ink.shape, [word.box], margin=0)].any(), page.text[word.start : word.end]


@needs_tesseract
@pytest.mark.parametrize("rotation", [0, 90])
async def test_words_of_a_cropped_and_turned_scan_are_where_they_are_shown(tmp_path: Path, rotation: int) -> None:
    scan = samples.scanned(tmp_path / "scan.pdf", letter(tmp_path / "a.pdf"))
    path = samples.cropped(tmp_path / "b.pdf", scan, (40.0, 500.0, 560.0, 842.0), rotation=rotation)
    (page,) = await read(path, Tesseract.find(["eng"]))
    quote = tuple(word.box for word in page.words if page.text[word.start : word.end] == "northern")
    assert len(quote) == 1
    before = to_pixels(await render_page(PageImage(path, 1), LIMITS))
    after = to_pixels(await render_page(PageImage(path, 1, quote), LIMITS))
    inside = covered(before.shape, quote, margin=0)
    assert (before.min(axis=2) < 128)[inside].any()
    changed = (before != after).any(axis=2)
    assert changed[inside & (before.min(axis=2) > 250)].all()
    assert not changed[~covered(before.shape, quote, margin=3)].any()


@needs_tesseract
async def test_two_columns_of_a_scan_are_read_one_after_the_other(tmp_path: Path) -> None:
    path = samples.scanned(tmp_path / "scan.pdf", samples.write_pdf(tmp_path / "a.pdf", samples.two_columns))
    (page,) = await read(path, Tesseract.find(["eng"]))
    text = " ".join(page.text.split())
    assert "Barges carried slate and wool down to the harbour until the railway came" in text
    assert text.index("northern hills") < text.index("Barges carried")


@needs_tesseract
async def test_a_picture_without_text_stays_unread(tmp_path: Path) -> None:
    pages = await read(samples.write_pdf(tmp_path / "a.pdf", samples.picture_of_text), Tesseract.find(["eng"]))
    assert [page.quality for page in pages] == [PageQuality.NEEDS_OCR]
    error = document_error({page.quality for page in pages})
    assert error is not None
    assert error.code == "needs_ocr"


async def test_shapes_that_are_hardly_letters_are_not_taken_for_text(tmp_path: Path) -> None:
    (page,) = await read(samples.write_pdf(tmp_path / "a.pdf", samples.picture_of_text), Reads(confidence=0.3))
    assert (page.quality, page.text) == (PageQuality.NEEDS_OCR, "")


async def test_only_pages_without_usable_text_are_recognised_and_only_so_many(tmp_path: Path) -> None:
    readable = samples.lines("A page of text that anybody can read.")
    scan = samples.picture_of_text
    path = samples.write_pdf(tmp_path / "a.pdf", scan, readable, scan, scan, samples.blank)
    engine = Reads()
    pages = await read(path, engine, max_pages=2)
    assert [page.text for page in pages] == ["word", "A page of text that anybody can read.", "word", "", ""]
    assert pages[3].quality is PageQuality.NEEDS_OCR
    assert engine.pictures == 2


async def test_a_run_that_goes_on_recognises_no_page_again(tmp_path: Path) -> None:
    path = samples.write_pdf(tmp_path / "a.pdf", *[samples.picture_of_text] * 3)
    engine = Reads()
    pages = await read(path, engine, first_page=3)
    assert [page.number for page in pages] == [3]
    assert engine.pictures == 1


async def test_without_tesseract_the_page_is_unread_and_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    recognition = find_recognition(["eng"], enabled=True, max_pages=5, page_timeout_s=5)
    pages = await read(samples.write_pdf(tmp_path / "a.pdf", samples.picture_of_text), recognition.engine)
    error = document_error({page.quality for page in pages}, recognition.engine.missing)
    assert error is not None
    assert "install tesseract-ocr" in error.message


@needs_tesseract
def test_languages_that_are_not_installed_are_left_out_or_named() -> None:
    assert Tesseract.find(["xxx", "eng"]).languages == ("eng",)
    recognition = find_recognition(["xxx"], enabled=True, max_pages=5, page_timeout_s=5)
    assert "tesseract-ocr-xxx" in recognition.engine.missing


def test_recognition_that_is_switched_off_says_so() -> None:
    assert "retrieval.ocr" in find_recognition(["eng"], enabled=False, max_pages=5, page_timeout_s=5).engine.missing
    assert NoOcr("why").missing == "why"


Script = Callable[[str], str]


@pytest.fixture
def tesseract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Puts a shell script in the program's place; gives the number for MARK in it, which marks processes in `ps`."""

    def put(script: str) -> str:
        program = tmp_path / "bin" / "tesseract"
        program.parent.mkdir()
        mark = f"3{abs(hash(tmp_path)) % 10**8:08}"
        program.write_text(f"#!/bin/sh\n{script.replace('MARK', mark)}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        return mark

    return put


@pytest.fixture
def hanging(tesseract: Script) -> str:
    """A `tesseract` that never answers, and starts another process that does not either; its mark in `ps`."""
    return tesseract("sleep MARK &\nsleep MARK")


async def test_recognition_that_takes_too_long_ends_with_all_it_started(hanging: str) -> None:
    with pytest.raises(OcrFailed):
        await Tesseract(["eng"], timeout_s=0.3).recognise(b"picture")
    assert processes_of(hanging) == []


async def test_cancelling_ends_recognition_with_all_it_started(hanging: str) -> None:
    task = asyncio.create_task(Tesseract(["eng"]).recognise(b"picture"))
    await started(2, lambda: processes_of(hanging))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_of(hanging) == []


async def test_what_outlives_the_program_and_holds_its_output_is_ended_too(tesseract: Script) -> None:
    mark = tesseract("sleep MARK &")
    with pytest.raises(OcrFailed):
        await Tesseract(["eng"], timeout_s=0.5).recognise(b"picture")
    assert processes_of(mark) == []


@pytest.mark.timeout(30)
async def test_what_has_left_the_group_and_holds_the_output_delays_nobody_for_long(tesseract: Script) -> None:
    mark = tesseract("setsid sleep MARK &")
    with pytest.raises(OcrFailed):
        await Tesseract(["eng"], timeout_s=0.5).recognise(b"picture")
    for process in processes_of(mark):
        os.kill(process, signal.SIGKILL)


async def test_a_page_that_cannot_be_recognised_costs_only_itself(tmp_path: Path, hanging: str) -> None:
    readable = samples.lines("A page of text that anybody can read.")
    path = samples.write_pdf(tmp_path / "a.pdf", samples.picture_of_text, readable)
    pages = await read(path, Tesseract(["eng"], timeout_s=0.3))
    assert [page.quality for page in pages] == [PageQuality.NEEDS_OCR, PageQuality.OK]
    assert children() == []


@needs_tesseract
async def test_a_scanned_document_is_searched_and_cited_like_any_other(tmp_path: Path) -> None:
    path = samples.scanned(tmp_path / "scan.pdf", letter(tmp_path / "a.pdf"))
    async with opened(tmp_path / "home", ocr_languages="eng") as library:
        await library.create_kb(TENANT, "rivers")
        document = await add(library, "rivers", path)
        assert (document.state, document.pages_unread) == (DocumentState.SEARCHABLE, ())
        assert document.notes == ("Page 1 is a picture of text, read by text recognition (OCR): words may be wrong.",)
        evidence = await library.search(TENANT, "rivers", "Where does the river rise?")
        (citation,) = await library.cite(TENANT, f"{SENTENCES[0]}.", evidence)
        plain = to_pixels(await library.render_page(TENANT, document.id, citation.page))
        marked = to_pixels(await library.render_page(TENANT, document.id, citation.page, citation.boxes))
    changed = (plain != marked).any(axis=2)
    assert changed.any()
    assert not changed[~covered(plain.shape, citation.boxes, margin=3)].any()
    assert (plain.min(axis=2) < 128)[covered(plain.shape, citation.boxes, margin=0)].any()


async def test_with_recognition_switched_off_a_scan_is_refused_with_the_setting_named(tmp_path: Path) -> None:
    path = samples.write_pdf(tmp_path / "a.pdf", samples.picture_of_text)
    async with opened(tmp_path / "home", ocr="off") as library:
        await library.create_kb(TENANT, "rivers")
        document = await add(library, "rivers", path)
    assert document.error_code == "needs_ocr"
    assert "retrieval.ocr" in (document.error_message or "")
