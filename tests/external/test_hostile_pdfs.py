"""Odd and broken PDFs that others published, each held against what the folder's index says of it.

Needs READAHEAD_TEST_DATA, a folder with hostile-pdf/index.jsonl.
"""

from __future__ import annotations

import json
import os
import random
import resource
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from readahead_retrieval.chunking import chunk_pages
from readahead_retrieval.errors import DocumentError
from readahead_retrieval.pdf.images import PageImage, render_page
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.ocr import OcrEngine
from readahead_retrieval.pdf.quality import document_error
from readahead_retrieval.pdf.reader import open_pdf
from readahead_retrieval.pdf.recognise import Recognition, find_recognition
from readahead_retrieval.tokens import EstimatedCounter
from readahead_retrieval.types import Page, PageQuality
from tests.retrieval import pdf_samples as samples
from tests.retrieval.reading import children
from tests.retrieval.test_pdf_fuzz import damaged, open_files, outcome

LIMITS = ReadLimits(timeout_s=60, memory_bytes=1 << 30)

READ_IN_ANOTHER_ORDER = {
    "form_acroform.pdf": "the boxes' own labels are read where the page shows them; the index has them last, as drawn",
    "form_acroform_values.pdf": "the page shows COMBO LIST above TEXT; the index has them as drawn",
    "ko_missing_tounicode.pdf": "a diagram is read in rows from its top; the index begins at its foot, as drawn",
    "zh_table_page.pdf": "the page number is read where it stands, at the foot; the index has it as drawn",
}
"""Files whose snippet is on its page, every word of it, but not as one run: read as the rendered page shows them."""


def _folder() -> Path | None:
    root = os.environ.get("READAHEAD_TEST_DATA")
    folder = Path(root) / "hostile-pdf" if root else None
    return folder if folder is not None and (folder / "index.jsonl").is_file() else None


def _entries() -> list[dict[str, Any]]:
    folder = _folder()
    if folder is None:
        return []
    return [json.loads(line) for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines()]


ENTRIES = _entries()

pytestmark = pytest.mark.skipif(not ENTRIES, reason="READAHEAD_TEST_DATA names no folder with hostile-pdf")


def _path(entry: dict[str, Any]) -> Path:
    """The file, whatever normal form its name has on this file system."""
    folder = _folder()
    assert folder is not None
    wanted = unicodedata.normalize("NFC", entry["file"])
    return next(path for path in folder.iterdir() if unicodedata.normalize("NFC", path.name) == wanted)


async def _read(path: Path, password: str | None = None) -> tuple[str, list[Page]]:
    """The outcome in the index's words, and the pages."""
    pages: list[Page] = []
    try:
        async with open_pdf(path, LIMITS, password) as pdf:
            pages = [page async for page in pdf.pages()]
    except DocumentError as error:
        return f"error:{error.code}", pages
    failure = document_error([page.quality for page in pages])
    if failure is not None:
        return ("needs_ocr" if failure.code == "needs_ocr" else f"error:{failure.code}"), pages
    unread = any(page.quality in {PageQuality.NEEDS_OCR, PageQuality.GARBAGE} for page in pages)
    return ("ok_partial" if unread else "ok"), pages


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text)))


def _assert_on_page(snippet: dict[str, Any], pages: list[Page], *, in_order: bool = True) -> None:
    text = _letters(pages[snippet["page"] - 1].text)
    assert (_letters(snippet["text"]) in text) is in_order, "see READ_IN_ANOTHER_ORDER"
    for word in snippet["text"].split():
        assert _letters(word) in text, word


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry["file"]))
async def test_a_file_ends_as_its_index_says(entry: dict[str, Any]) -> None:
    outcome, pages = await _read(_path(entry))
    assert outcome in {entry["expected"], *entry.get("also_accept", ())}
    if outcome.startswith("ok"):
        assert len(pages) == entry["pages"]
        _assert_on_page(entry["snippet"], pages, in_order=entry["file"] not in READ_IN_ANOTHER_ORDER)
        if "snippet2" in entry:
            _assert_on_page(entry["snippet2"], pages)
    if "pages_without_text" in entry:
        assert [page.number for page in pages if not page.text] == entry["pages_without_text"]
    if "page_labels" in entry:
        assert [page.label for page in pages] == entry["page_labels"]
    for page in pages:
        page.text.encode("utf-8")
        assert unicodedata.is_normalized("NFC", page.text)
        assert all(0 <= word.start < word.end <= len(page.text) for word in page.words)


@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES if "password" in entry], ids=lambda entry: str(entry["file"])
)
async def test_a_locked_file_opens_with_its_password_only(entry: dict[str, Any]) -> None:
    outcome, pages = await _read(_path(entry), entry["password"])
    assert outcome == "ok"
    _assert_on_page(entry["snippet_with_password"], pages)
    assert (await _read(_path(entry), "wrong"))[0] == "error:password_required"


@pytest.mark.parametrize(
    "entry",
    [entry for entry in ENTRIES if entry["expected"] in {"ok", "ok_partial", "needs_ocr"}],
    ids=lambda entry: str(entry["file"]),
)
async def test_a_first_page_is_drawn_small_or_fails_with_a_reason(entry: dict[str, Any]) -> None:
    png = await render_page(PageImage(_path(entry), 1, width=300), LIMITS)
    assert png.startswith(b"\x89PNG")
    assert len(png) < 2_000_000


async def test_chunks_of_real_documents_give_their_pages_again() -> None:
    for name in ("two_column_paper.pdf", "table_dense_numbers.pdf", "ko_two_column_report.pdf", "ja_regulation.pdf"):
        _, pages = await _read(_path({"file": name}))
        by_number = {page.number: page.text for page in pages}
        for chunk in chunk_pages(pages, EstimatedCounter(), max_tokens=220, overlap_tokens=40):
            spans = "".join(by_number[span.page][span.start : span.end] for span in chunk.spans)
            assert "".join(spans.split()) == "".join(chunk.text.split())


@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES if "attachments" in entry], ids=lambda entry: str(entry["file"])
)
async def test_attached_files_are_named_as_unread(entry: dict[str, Any]) -> None:
    async with open_pdf(_path(entry), LIMITS) as pdf:
        (note,) = pdf.notes
    assert all(name in note for name in entry["attachments"])


async def test_an_xfa_form_is_said_to_be_read_in_part() -> None:
    async with open_pdf(_path({"file": "form_xfa_placeholder.pdf"}), LIMITS) as pdf:
        assert any("XFA" in note for note in pdf.notes)


async def test_values_of_a_form_are_read() -> None:
    _, (page,) = await _read(_path({"file": "form_acroform_values.pdf"}))
    assert {"[x]", "222", "fff", "AcroForm", "tests"} <= set(page.text.split())


def _memory() -> int:
    """Of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


async def test_a_hundred_damaged_files_leave_no_process_no_handle_and_no_memory(tmp_path: Path) -> None:
    chance = random.Random(7)
    whole = [path.read_bytes() for entry in ENTRIES if 0 < (path := _path(entry)).stat().st_size < 200_000]
    path = tmp_path / "damaged.pdf"
    outcomes: Counter[str] = Counter()
    handles = memory = 0
    for number in range(110):
        path.write_bytes(damaged(whole[number % len(whole)], chance))
        outcomes[await outcome(path)] += 1
        if number == 10:  # what is set up once is set up by now
            handles, memory = open_files(), _memory()
    assert outcomes["ok"] > 30
    assert outcomes["interrupted"] == 0
    assert children() == []
    assert open_files() <= handles + 2
    assert _memory() - memory < 32 << 20


def _tesseract(language: str) -> OcrEngine:
    found = find_recognition([language], enabled=True, max_pages=1, page_timeout_s=60)
    if found.engine.missing:
        pytest.skip(found.engine.missing)
    return found.engine


async def _recognised(path: Path, engine: OcrEngine, max_pages: int = 10) -> list[Page]:
    async with open_pdf(path, LIMITS, recognition=Recognition(engine, max_pages)) as pdf:
        return [page async for page in pdf.pages()]


SCANNED = "Docling bundles PDF document conversion to JSON and Markdown in an easy self contained package"


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("scan_single_page.pdf", {1: SCANNED}),
        ("scan_four_pages.pdf", {1: SCANNED, 2: SCANNED, 3: SCANNED, 4: SCANNED}),
        ("mixed_text_and_scan.pdf", {2: SCANNED}),
        ("huge_image_page.pdf", {1: "This is a very big image with a tiny amount of text."}),
    ],
)
async def test_scans_are_read_where_tesseract_is_installed(name: str, texts: dict[int, str]) -> None:
    pages = await _recognised(_path({"file": name}), _tesseract("eng"))
    assert {number: pages[number - 1].text for number in texts} == texts
    assert all(pages[number - 1].quality is PageQuality.RECOGNISED for number in texts)


async def test_pages_with_a_text_layer_of_garbage_are_recognised() -> None:
    path = _path({"file": "text_layer_garbage_pages.pdf"})
    readable = [page.number for page in (await _read(path))[1] if page.quality is PageQuality.OK]
    pages = await _recognised(path, _tesseract("eng"), max_pages=3)
    assert [page.number for page in pages if page.quality is PageQuality.OK] == readable
    assert [page.number for page in pages if page.quality is PageQuality.RECOGNISED] == [2, 3, 4]
    assert "several applications of TAM will be presented" in pages[2].text


async def test_a_korean_scan_keeps_the_spaces_between_words(tmp_path: Path) -> None:
    source = _path({"file": "ko_two_column_report.pdf"})
    written = (await _read(source))[1][1].text
    scan = samples.scanned(tmp_path / "scan.pdf", source, dots_per_inch=300)
    async with open_pdf(scan, LIMITS, recognition=Recognition(_tesseract("kor"), 2)) as pdf:
        recognised = [page async for page in pdf.pages()][1].text
    words = [word for word in written.split() if len(word) > 3 and word.isalpha()]
    found = sum(word in recognised for word in words)
    assert found > 0.8 * len(words)
