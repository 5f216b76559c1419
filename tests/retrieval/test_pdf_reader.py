"""Reading: pages come in order, whatever is wrong with the file or with one page of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path

import pytest

from readahead_retrieval.errors import DocumentError
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.quality import document_error
from readahead_retrieval.pdf.reader import open_pdf
from readahead_retrieval.pdf.readers import Readers
from readahead_retrieval.types import Page, PageQuality
from tests.retrieval import pdf_samples as samples
from tests.retrieval.reading import (
    children,
    connections,
    endless_pdf,
    fork_servers,
    is_running,
    killed_when_it_starts,
    slow_to_open,
)

LIMITS = ReadLimits(timeout_s=30, memory_bytes=512 << 20)


async def read(path: Path, *, limits: ReadLimits = LIMITS, password: str | None = None) -> list[Page]:
    async with open_pdf(path, limits, password) as pdf:
        return [page async for page in pdf.pages()]


async def error_of(path: Path, *, limits: ReadLimits = LIMITS, password: str | None = None) -> str:
    with pytest.raises(DocumentError) as caught:
        await read(path, limits=limits, password=password)
    assert caught.value.message.endswith(".")
    return caught.value.code


def environment(process: int) -> bytes:
    return Path(f"/proc/{process}/environ").read_bytes()


async def kill_readers(count: int) -> None:
    """As a kernel short of memory does."""
    killed: set[int] = set()
    while len(killed) < count:
        await asyncio.sleep(0.01)
        for process in set(children()) - killed:
            os.kill(process, signal.SIGKILL)
            killed.add(process)


def texts(pages: Sequence[Page]) -> list[str]:
    return [page.text for page in pages]


async def test_pages_come_in_order_with_their_text_and_size(tmp_path: Path) -> None:
    path = samples.write_pdf(tmp_path / "a.pdf", samples.lines("First page."), samples.lines("Second page."))
    async with open_pdf(path, LIMITS) as pdf:
        assert pdf.page_count == 2
        pages = [page async for page in pdf.pages()]
    assert texts(pages) == ["First page.", "Second page."]
    assert [page.number for page in pages] == [1, 2]
    assert [page.label for page in pages] == ["1", "2"]
    assert [(page.width, page.height) for page in pages] == [samples.A4] * 2
    assert {page.quality for page in pages} == {PageQuality.OK}


async def test_every_word_is_a_run_of_the_text(tmp_path: Path) -> None:
    path = samples.write_pdf(tmp_path / "a.pdf", samples.two_columns)
    (page,) = await read(path)
    words = [page.text[word.start : word.end] for word in page.words]
    assert words == page.text.split()


async def test_printed_labels_are_kept_beside_physical_numbers(tmp_path: Path) -> None:
    source = samples.write_pdf(tmp_path / "a.pdf", *(samples.lines(f"Page {number}") for number in range(5)))
    pages = await read(samples.labelled(tmp_path / "b.pdf", source, roman=2))
    assert [page.label for page in pages] == ["i", "ii", "1", "2", "3"]
    assert [page.number for page in pages] == [1, 2, 3, 4, 5]


async def test_attached_files_are_named_because_they_are_not_read(tmp_path: Path) -> None:
    source = samples.write_pdf(tmp_path / "a.pdf", samples.lines("See the attached figures."))
    path = samples.with_attachments(tmp_path / "b.pdf", source, "figures.pdf", "plan.png")
    async with open_pdf(path, LIMITS) as pdf:
        assert pdf.notes == ("Attached files are not read: figures.pdf, plan.png. Upload them by themselves.",)
        assert [page.text async for page in pdf.pages()] == ["See the attached figures."]
    async with open_pdf(source, LIMITS) as pdf:
        assert pdf.notes == ()


async def test_a_locked_file_asks_for_its_password(tmp_path: Path) -> None:
    source = samples.write_pdf(tmp_path / "a.pdf", samples.lines("Secret plan."))
    path = samples.locked(tmp_path / "b.pdf", source, user="pässwört", owner="owner")
    assert await error_of(path) == "password_required"
    assert await error_of(path, password="wrong") == "password_required"
    assert texts(await read(path, password="pässwört")) == ["Secret plan."]
    assert texts(await read(path, password="owner")) == ["Secret plan."]


async def test_a_file_with_only_an_owner_password_opens_without_one(tmp_path: Path) -> None:
    source = samples.write_pdf(tmp_path / "a.pdf", samples.lines("Not to be printed."))
    path = samples.locked(tmp_path / "b.pdf", source, user="", owner="owner")
    assert texts(await read(path)) == ["Not to be printed."]


@pytest.mark.parametrize(
    ("content", "code", "named"),
    [
        (b"", "empty_file", "0 bytes"),
        (b"<!DOCTYPE html><html><body>hello</body></html>", "not_pdf", "HTML"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "not_pdf", "PNG"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n", "not_pdf", "Git LFS"),
        (b"PK\x03\x04" + bytes(100), "not_pdf", "ZIP"),
        (b"Dear reader,\n", "not_pdf", "plain text"),
        (bytes(range(256)) * 8, "not_pdf", "binary"),
        (b"%PDF-1.7\n" + bytes(range(256)) * 8, "corrupt", "damaged"),
    ],
)
async def test_what_is_no_pdf_is_named(tmp_path: Path, content: bytes, code: str, named: str) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(content)
    with pytest.raises(DocumentError) as caught:
        await read(path)
    assert caught.value.code == code
    assert named in caught.value.message


async def test_bytes_before_the_header_are_forgiven(tmp_path: Path) -> None:
    source = samples.write_pdf(tmp_path / "a.pdf", samples.lines("Behind some bytes."))
    path = tmp_path / "b.pdf"
    path.write_bytes(b"\n" * 247 + source.read_bytes())
    assert texts(await read(path)) == ["Behind some bytes."]


async def test_a_file_cut_off_is_corrupt(tmp_path: Path) -> None:
    source = samples.write_pdf(tmp_path / "a.pdf", samples.lines("Whole."))
    path = tmp_path / "b.pdf"
    path.write_bytes(source.read_bytes()[:120])
    assert await error_of(path) == "corrupt"


async def test_a_scanned_page_needs_ocr_and_does_not_hide_the_others(tmp_path: Path) -> None:
    prose = samples.lines("A page of text that anybody can read.")
    path = samples.write_pdf(tmp_path / "a.pdf", prose, samples.picture_of_text, samples.blank)
    pages = await read(path)
    assert [page.quality for page in pages] == [PageQuality.OK, PageQuality.NEEDS_OCR, PageQuality.BLANK]
    assert document_error({page.quality for page in pages}) is None


async def test_a_scan_as_a_whole_needs_ocr(tmp_path: Path) -> None:
    pages = await read(samples.write_pdf(tmp_path / "a.pdf", samples.picture_of_text, samples.blank))
    error = document_error({page.quality for page in pages})
    assert error is not None
    assert error.code == "needs_ocr"


async def test_a_document_of_blank_pages_has_no_text(tmp_path: Path) -> None:
    pages = await read(samples.write_pdf(tmp_path / "a.pdf", samples.blank))
    error = document_error({page.quality for page in pages})
    assert error is not None
    assert error.code == "no_text"


async def test_a_page_that_kills_the_reader_costs_only_itself(tmp_path: Path) -> None:
    contents = [
        samples.text_content("Before."),
        samples.bomb_content(300 << 20),
        samples.text_content("After."),
    ]
    path = samples.raw_pdf(tmp_path / "bomb.pdf", contents)
    pages = await read(path, limits=ReadLimits(timeout_s=60, memory_bytes=160 << 20))
    assert texts(pages) == ["Before.", "", "After."]
    assert [page.quality for page in pages] == [PageQuality.OK, PageQuality.GARBAGE, PageQuality.OK]
    assert children() == []


async def test_a_file_whose_every_page_kills_the_reader_fails(tmp_path: Path) -> None:
    path = samples.raw_pdf(tmp_path / "bomb.pdf", [samples.bomb_content(300 << 20)])
    assert await error_of(path, limits=ReadLimits(timeout_s=60, memory_bytes=160 << 20)) == "too_large"


async def test_a_page_without_end_costs_only_itself(tmp_path: Path) -> None:
    path = endless_pdf(tmp_path / "endless.pdf", pages=3)
    pages = await read(path, limits=ReadLimits(timeout_s=3600, memory_bytes=4 << 30, page_timeout_s=0.5))
    assert texts(pages) == ["Before.", "", "After."]
    assert children() == []


async def test_a_file_without_end_times_out_and_leaves_no_process(tmp_path: Path) -> None:
    path = endless_pdf(tmp_path / "endless.pdf", pages=2)
    with pytest.raises(DocumentError) as caught:
        await read(path, limits=ReadLimits(timeout_s=0.7, memory_bytes=4 << 30))
    assert (caught.value.code, caught.value.retryable) == ("timed_out", True)
    assert children() == []


async def test_a_reader_killed_from_outside_goes_on_at_the_same_page(tmp_path: Path) -> None:
    expected = [f"Page {number} of the book." for number in range(600)]
    path = samples.write_pdf(tmp_path / "a.pdf", *map(samples.lines, expected))
    pages: list[Page] = []
    async with open_pdf(path, LIMITS) as pdf:
        async for page in pdf.pages():
            pages.append(page)
            if page.number == 3:
                os.kill(children()[0], signal.SIGKILL)
    assert texts(pages) == expected
    assert [page.number for page in pages] == list(range(1, 601))


async def test_the_server_of_the_readers_is_replaced_and_its_readers_go_on_at_the_same_page(tmp_path: Path) -> None:
    expected = [f"Page {number} of the book." for number in range(600)]
    path = samples.write_pdf(tmp_path / "a.pdf", *map(samples.lines, expected))
    pages: list[Page] = []
    async with Readers() as readers, open_pdf(path, LIMITS, readers=readers) as pdf:
        async for page in pdf.pages():
            pages.append(page)
            if page.number == 3:
                (killed,) = fork_servers()
                os.kill(killed, signal.SIGKILL)
    assert texts(pages) == expected
    assert fork_servers() == []


async def test_readers_are_forked_by_one_server_and_share_no_connection(tmp_path: Path) -> None:
    path = endless_pdf(tmp_path / "endless.pdf", pages=2)
    patient = ReadLimits(timeout_s=3600, memory_bytes=4 << 30)
    async with Readers() as readers, open_pdf(path, patient, readers=readers):
        async with open_pdf(path, patient, readers=readers):
            first, second = children()
            assert len(fork_servers()) == 1
            assert connections(first) & connections(second) == set()
            assert len(connections(first)) == len(connections(second)) == 1
        assert children() == [first]
    assert children() == fork_servers() == []


_SERVICE = """
import asyncio, sys
from pathlib import Path
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.reader import open_pdf
from tests.retrieval.reading import children, fork_servers

async def main():
    async with open_pdf(Path(sys.argv[1]), ReadLimits(timeout_s=3600, memory_bytes=4 << 30)):
        print(*children(), *fork_servers(), flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


async def test_readers_and_their_server_end_with_a_service_that_is_killed(tmp_path: Path) -> None:
    path = endless_pdf(tmp_path / "endless.pdf", pages=2)
    service = await asyncio.create_subprocess_exec(sys.executable, "-c", _SERVICE, str(path), stdout=PIPE)
    assert service.stdout is not None
    processes = [int(number) for number in (await service.stdout.readline()).split()]
    assert len(processes) == 2
    service.kill()
    await service.communicate()
    async with asyncio.timeout(10):
        while any(is_running(process) for process in processes):  # noqa: ASYNC110 - an end sets no event here
            await asyncio.sleep(0.01)


async def test_a_server_that_never_starts_is_no_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = samples.write_pdf(tmp_path / "a.pdf", samples.lines("Page."))
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert await error_of(path) == "interrupted"
    assert fork_servers() == []


async def test_a_reader_killed_twice_over_one_page_fails_but_may_be_tried_again(tmp_path: Path) -> None:
    path = endless_pdf(tmp_path / "endless.pdf", pages=3)
    with pytest.raises(DocumentError) as caught:
        async with open_pdf(path, ReadLimits(timeout_s=3600, memory_bytes=4 << 30)) as pdf:
            async for _ in pdf.pages():
                killing = asyncio.create_task(kill_readers(2))
    await killing
    assert (caught.value.code, caught.value.retryable) == ("interrupted", True)
    assert children() == []


async def test_a_reader_killed_while_it_opens_the_file_is_started_once_more(tmp_path: Path) -> None:
    path = slow_to_open(tmp_path / "a.pdf")
    async with killed_when_it_starts(times=1):
        assert texts(await read(path)) == ["Still here."]
    async with killed_when_it_starts(times=2):
        assert await error_of(path) == "interrupted"
    assert children() == []


@pytest.mark.timeout(12)  # left alone, the child would work on until its memory is used up
async def test_cancelling_ends_the_process(tmp_path: Path) -> None:
    path = endless_pdf(tmp_path / "endless.pdf", pages=2)
    first_page = asyncio.Event()

    async def consume() -> None:
        async with open_pdf(path, ReadLimits(timeout_s=3600, memory_bytes=4 << 30)) as pdf:
            async for _ in pdf.pages():
                first_page.set()

    task = asyncio.create_task(consume())
    await first_page.wait()
    assert len(children()) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == []


async def test_a_reader_that_stops_early_leaves_no_process(tmp_path: Path) -> None:
    path = samples.write_pdf(tmp_path / "a.pdf", *[samples.lines("Many pages.")] * 50)
    async with open_pdf(path, LIMITS) as pdf:
        async for page in pdf.pages():
            assert page.number == 1
            break
    assert children() == []


async def test_a_file_with_too_many_pages_is_refused(tmp_path: Path) -> None:
    path = samples.write_pdf(tmp_path / "a.pdf", *[samples.blank] * 11)
    assert await error_of(path, limits=ReadLimits(max_pages=10)) == "too_large"


async def test_the_reading_process_sees_no_secret_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READAHEAD_API_KEY", "sk-secret")
    path = samples.write_pdf(tmp_path / "a.pdf", samples.lines("Page."))
    async with open_pdf(path, LIMITS) as pdf:
        (child,) = children()
        assert b"sk-secret" not in environment(child)
        assert [page.text async for page in pdf.pages()] == ["Page."]
