"""Boxes and page images, held against the pixels that are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from readahead_retrieval.pdf.images import PageImage, render_page
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.reader import open_pdf
from readahead_retrieval.types import Box, Page
from tests.retrieval import pdf_samples as samples
from tests.retrieval.reading import Pixels, covered, to_pixels

LIMITS = ReadLimits(timeout_s=30, memory_bytes=512 << 20)

Make = Callable[[Path], Path]


async def first_page(path: Path) -> Page:
    async with open_pdf(path, LIMITS) as pdf:
        async for page in pdf.pages():
            return page
    raise AssertionError("no page")


async def pixels(path: Path, *, boxes: Sequence[Box] = (), width: int = 1200) -> Pixels:
    """The drawn page, height × width × 3."""
    png = await render_page(PageImage(path, 1, tuple(boxes), width), LIMITS)
    return to_pixels(png)


def plain(tmp_path: Path) -> Path:
    return samples.write_pdf(tmp_path / "plain.pdf", samples.two_columns)


def as_it_is(tmp_path: Path) -> Path:
    return plain(tmp_path)


def on_a3(tmp_path: Path) -> Path:
    return samples.write_pdf(tmp_path / "a3.pdf", samples.lines("Large sheet", y=1100), size=samples.A3)


def turned_by(rotation: int) -> Make:
    return lambda tmp_path: samples.turned(tmp_path / "turned.pdf", plain(tmp_path), rotation)


def cropped_and_turned_by(rotation: int) -> Make:
    # Cuts the title in two, which only the rendered part of may be marked, and moves the origin of everything.
    box = (40.0, 500.0, 560.0, 787.0)
    return lambda tmp_path: samples.cropped(tmp_path / "cropped.pdf", plain(tmp_path), box, rotation=rotation)


LAYOUTS = [
    pytest.param(as_it_is, id="plain"),
    pytest.param(on_a3, id="a3"),
    *(pytest.param(turned_by(rotation), id=f"turned by {rotation}") for rotation in (90, 180, 270)),
    *(
        pytest.param(cropped_and_turned_by(rotation), id=f"cropped, turned by {rotation}")
        for rotation in (0, 90, 180, 270)
    ),
]


@pytest.mark.parametrize("make", LAYOUTS)
async def test_ink_lies_inside_the_words_boxes_and_every_box_holds_ink(tmp_path: Path, make: Make) -> None:
    path = make(tmp_path)
    page = await first_page(path)
    image = await pixels(path)
    ink = image.min(axis=2) < 128
    boxes = [word.box for word in page.words]
    assert len(boxes) > 1
    assert not (ink & ~covered(image.shape, boxes, margin=2)).any()
    for word in page.words:
        assert ink[covered(image.shape, [word.box], margin=0)].any(), page.text[word.start : word.end]


@pytest.mark.parametrize("make", LAYOUTS)
async def test_a_highlight_lies_on_its_word_and_leaves_the_rest_alone(tmp_path: Path, make: Make) -> None:
    path = make(tmp_path)
    page = await first_page(path)
    quote = [word.box for word in page.words if page.text[word.start : word.end] in {"northern", "hills", "Large"}]
    assert quote
    before, after = await pixels(path), await pixels(path, boxes=quote)
    changed = (before != after).any(axis=2)
    white = before.min(axis=2) > 250
    assert changed[covered(before.shape, quote, margin=0) & white].all()
    assert not changed[~covered(before.shape, quote, margin=3)].any()
    marked = after[covered(before.shape, quote, margin=0) & white]
    assert (marked[:, 2] < marked[:, 0]).all(), "the marker is yellow"
    ink = before.min(axis=2) < 60
    assert (after[covered(before.shape, quote, margin=0) & ink].max(axis=1) < 160).all(), "words stay readable"


async def test_the_shown_size_follows_rotation_and_crop_box(tmp_path: Path) -> None:
    page = await first_page(cropped_and_turned_by(90)(tmp_path))
    assert (page.width, page.height) == (287.0, 520.0)


async def test_text_outside_the_crop_box_is_not_shown_and_not_read(tmp_path: Path) -> None:
    source = samples.write_pdf(tmp_path / "a.pdf", samples.lines("Shown", y=760), samples.blank)
    path = samples.cropped(tmp_path / "b.pdf", source, (0.0, 0.0, 595.0, 700.0))
    assert (await first_page(path)).text == ""


async def test_an_image_is_as_wide_as_asked_and_keeps_the_pages_shape(tmp_path: Path) -> None:
    image = await pixels(plain(tmp_path), width=400)
    assert image.shape[1] == 400
    assert abs(image.shape[0] - 400 * 842 / 595) <= 1


async def test_an_image_is_bounded_however_large_the_page(tmp_path: Path) -> None:
    path = samples.write_pdf(tmp_path / "a.pdf", samples.lines("Mile"), size=(14_400.0, 14_400.0))
    image = await pixels(path, width=100_000)
    assert image.shape[0] * image.shape[1] <= 12_100_000


async def test_a_very_long_page_is_drawn_small(tmp_path: Path) -> None:
    path = samples.write_pdf(tmp_path / "a.pdf", samples.lines("Banner", x=1, y=100), size=(10.0, 14_400.0))
    image = await pixels(path, width=3000)
    assert image.shape[0] * image.shape[1] <= 12_100_000
