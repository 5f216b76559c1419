"""Page images: bounded in number, in size and in what they may take."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from readahead_retrieval.errors import Busy, DocumentError, NotFound
from readahead_retrieval.pdf.images import PageImage, PageImages, render_page
from readahead_retrieval.pdf.limits import ReadLimits
from tests.retrieval import pdf_samples as samples
from tests.retrieval.reading import children, endless_pdf, killed_when_it_starts, slow_to_open, started

LIMITS = ReadLimits(timeout_s=30, memory_bytes=512 << 20)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return samples.write_pdf(tmp_path / "plain.pdf", samples.lines("One page."))


@pytest.mark.parametrize("number", [0, 2, -1, 1 << 40, 1 << 64, 10**300])
async def test_a_page_that_does_not_exist_is_not_found_and_leaves_no_process(plain: Path, number: int) -> None:
    with pytest.raises(NotFound):
        await render_page(PageImage(plain, number), LIMITS)
    assert children() == []


async def test_a_request_that_cannot_be_sent_starts_no_process(plain: Path) -> None:
    with pytest.raises(OverflowError):
        await render_page(PageImage(plain, 1, width=1 << 70), LIMITS)
    assert children() == []


async def test_drawing_a_locked_file_needs_its_password(tmp_path: Path, plain: Path) -> None:
    path = samples.locked(tmp_path / "b.pdf", plain, user="open", owner="owner")
    with pytest.raises(DocumentError) as caught:
        await render_page(PageImage(path, 1), LIMITS)
    assert caught.value.code == "password_required"
    png = await render_page(PageImage(path, 1, password="open"), LIMITS)
    assert png.startswith(b"\x89PNG")


async def test_a_page_that_cannot_be_drawn_within_its_limits_fails_alone(tmp_path: Path) -> None:
    path = samples.raw_pdf(tmp_path / "bomb.pdf", [samples.bomb_content(300 << 20)])
    with pytest.raises(DocumentError) as caught:
        await render_page(PageImage(path, 1), ReadLimits(memory_bytes=160 << 20))
    assert caught.value.code == "too_large"
    assert not caught.value.retryable


async def test_a_process_killed_from_outside_is_started_once_more(tmp_path: Path) -> None:
    slow = slow_to_open(tmp_path / "a.pdf")
    async with killed_when_it_starts(times=1):
        assert (await render_page(PageImage(slow, 1), LIMITS)).startswith(b"\x89PNG")
    async with killed_when_it_starts(times=2):
        with pytest.raises(DocumentError) as caught:
            await render_page(PageImage(slow, 1), LIMITS)
    assert (caught.value.code, caught.value.retryable) == ("interrupted", True)


async def test_only_so_many_pages_are_drawn_and_wait_at_a_time(tmp_path: Path) -> None:
    path = endless_pdf(tmp_path / "endless.pdf", pages=2)
    images = PageImages(ReadLimits(memory_bytes=4 << 30, page_timeout_s=600), at_a_time=1, max_waiting=2)
    waiting = [asyncio.create_task(images.get(PageImage(path, 2, width=width))) for width in (100, 200, 300)]
    await started(1)
    with pytest.raises(Busy):
        await images.get(PageImage(path, 2, width=400))
    assert len(children()) == 1
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert children() == []
    plain = samples.write_pdf(tmp_path / "plain.pdf", samples.lines("Free again."))
    assert (await images.get(PageImage(plain, 1))).startswith(b"\x89PNG")


async def test_the_same_image_is_drawn_once(plain: Path) -> None:
    images = PageImages(LIMITS)
    first, second = await asyncio.gather(*(images.get(PageImage(plain, 1, width=200)) for _ in range(2)))
    assert first is second
    assert await images.get(PageImage(plain, 1, width=200)) is second
    assert await images.get(PageImage(plain, 1, width=201)) != second
