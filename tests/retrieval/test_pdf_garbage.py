"""Text layers that are no text: fonts without a character mapping, or with a wrong one."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from pathlib import Path

import pytest

from readahead_retrieval.pdf.letters import is_garbled
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.reader import open_pdf
from readahead_retrieval.types import Page, PageQuality
from tests.retrieval import pdf_samples as samples

LIMITS = ReadLimits(timeout_s=30, memory_bytes=512 << 20)
ENGLISH = samples.LEFT_COLUMN + samples.RIGHT_COLUMN
KOREAN = "이 규정은 재택근무를 하는 모든 직원에게 적용되며 매년 삼월에 다시 검토한다. " * 8
FRENCH = "L'été dernier, l'élève a été reçu à l'hôtel où naît la forêt ; sa mère préférait rêver près du château. " * 4
CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy, čtvrtý zloděj vytrhl hrst zlaté hřivny a potom čekal na hlas. " * 5
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю, пока не остыл самовар на столе. " * 6
GREEK = "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία και γράφω την αλήθεια στο χαρτί κάθε μέρα του χρόνου. " * 6
CODE = "def read(path: str) -> str:\n    with open(path) as src:\n        return src.read().strip()[:strlen(p)]\n" * 12
PARTS = "\n".join(f"XKR-{number} BGTW {number * 7} pcs 450 W HTTP PDF SSL" for number in range(60))


def shifted(text: str, by: int) -> str:
    return "".join(chr(max(ord(letter) + by, 0)) for letter in text)


def rotated(text: str) -> str:
    lower = string.ascii_lowercase
    return text.lower().translate(str.maketrans(lower, lower[1:] + lower[:1]))


@pytest.mark.parametrize(
    "text", [ENGLISH, ENGLISH.upper(), KOREAN, FRENCH, CZECH, RUSSIAN, GREEK, CODE, PARTS, "", "BGTW " * 9]
)
def test_text_of_any_language_code_and_lists_are_text(text: str) -> None:
    assert not is_garbled(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(rotated(ENGLISH), id="every letter is the next one"),
        pytest.param(KOREAN.encode("euc-kr").decode("latin-1"), id="Korean bytes as Latin letters"),
        pytest.param(RUSSIAN.encode("cp1251").decode("latin-1"), id="Cyrillic bytes as Latin letters"),
        pytest.param(
            "".join(random.Random(3).choices("abcdeабвгдαβγδε", k=6)) + " абвdgαβγ" * 60, id="alphabets mixed in words"
        ),
    ],
)
def test_letters_that_no_language_has_are_garbage(text: str) -> None:
    assert is_garbled(text)


async def read(path: Path) -> list[Page]:
    async with open_pdf(path, LIMITS) as pdf:
        return [page async for page in pdf.pages()]


@pytest.mark.parametrize("spoil", [rotated, lambda text: shifted(text, -29)], ids=["wrong letters", "glyph numbers"])
async def test_a_page_of_a_font_with_a_wrong_mapping_is_garbage_and_costs_the_others_nothing(
    tmp_path: Path, spoil: Callable[[str], str]
) -> None:
    lines = samples.wrapped(ENGLISH * 2, 400)
    path = samples.raw_pdf(
        tmp_path / "a.pdf", [samples.lines_content(lines), samples.lines_content([spoil(line) for line in lines])]
    )
    pages = await read(path)
    assert [page.quality for page in pages] == [PageQuality.OK, PageQuality.GARBAGE]
