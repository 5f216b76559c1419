"""Files damaged at random: whatever happens to them, the service keeps nothing of it."""

from __future__ import annotations

import random
from pathlib import Path

from readahead_retrieval.errors import DocumentError
from readahead_retrieval.pdf.images import PageImage, render_page
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.reader import open_pdf
from tests.retrieval import pdf_samples as samples
from tests.retrieval.reading import children

LIMITS = ReadLimits(timeout_s=20, memory_bytes=512 << 20, page_timeout_s=5)
FILES = 24


def sources(folder: Path) -> list[bytes]:
    plain = samples.write_pdf(folder / "a.pdf", samples.two_columns, samples.form, samples.picture_of_text)
    paths = [
        plain,
        samples.locked(folder / "b.pdf", plain, user="", owner="owner"),
        samples.labelled(folder / "c.pdf", plain, roman=2),
        samples.raw_pdf(folder / "d.pdf", [samples.text_content("Some text.")] * 3),
    ]
    return [path.read_bytes() for path in paths]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, a piece left out, or the end cut off."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 8, 64))):
        out[chance.randrange(len(out))] = chance.randrange(256)
    if chance.random() < 0.3:
        start = chance.randrange(len(out))
        del out[start : start + chance.randrange(1, 400)]
    return bytes(out[: chance.randrange(1, len(out))] if chance.random() < 0.1 else out)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def outcome(path: Path) -> str:
    try:
        async with open_pdf(path, LIMITS) as pdf:
            pages = [page async for page in pdf.pages()]
        assert [page.number for page in pages] == list(range(1, pdf.page_count + 1))
        for page in pages:
            page.text.encode("utf-8")
            assert all(0 <= word.start < word.end <= len(page.text) for word in page.words)
        if pages:
            await render_page(PageImage(path, 1, (), 100), LIMITS)
    except DocumentError as error:
        assert error.message.endswith(".")
        return error.code
    return "ok"


async def test_damaged_files_end_in_pages_or_a_reason_and_leave_nothing(tmp_path: Path) -> None:
    chance = random.Random(4)
    whole = sources(tmp_path)
    handles = open_files()
    outcomes: set[str] = set()
    for number in range(FILES):
        path = tmp_path / "damaged.pdf"
        path.write_bytes(damaged(whole[number % len(whole)], chance))
        outcomes.add(await outcome(path))
    assert {"ok", "corrupt"} <= outcomes
    assert "interrupted" not in outcomes
    assert children() == []
    assert open_files() <= handles + 4
