"""Tesseract as a program: one process for each page, one thread each, killed with all that it started."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import subprocess
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Self

from readahead_retrieval.pdf.ocr import OcrFailed, OcrWord
from readahead_retrieval.spawning import spawned
from readahead_retrieval.types import Box

PROGRAM = "tesseract"
PAGE_TIMEOUT_S = 60.0
MEMORY_BYTES = 2 << 30
_LISTING_TIMEOUT_S = 10.0
_CLOSING_S = 2.0
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "TESSDATA_PREFIX", "TMPDIR")
_COLUMNS = 12
_WORD, _LINE, _PAGE = "5", "4", "1"
"""Levels of the rows of Tesseract's table."""


class TesseractMissing(Exception):
    """It cannot be used here; the message names the mend."""


class Tesseract:
    """An `OcrEngine` that starts the program for every page.

    Args:
        languages: Tesseract's codes ("eng", "kor"), all of them installed.
        finds_turn: Whether its data for orientation ("osd") are installed: scans that lie on their side are read too.
        timeout_s: For one page.
    """

    def __init__(self, languages: Sequence[str], *, finds_turn: bool = True, timeout_s: float = PAGE_TIMEOUT_S) -> None:
        self.languages = tuple(languages)
        self._segmentation = "1" if finds_turn else "3"
        self._timeout_s = timeout_s

    @classmethod
    def find(cls, languages: Sequence[str], *, timeout_s: float = PAGE_TIMEOUT_S) -> Self:
        """With those of the languages that are installed. Blocks for a moment.

        Raises:
            TesseractMissing: There is no program, or none of the languages.
        """
        if shutil.which(PROGRAM) is None:
            raise TesseractMissing("Tesseract is not installed: install tesseract-ocr to have scanned pages read.")
        installed = _installed_languages()
        usable = [language for language in languages if language in installed]
        if not usable:
            wanted = ", ".join(languages)
            raise TesseractMissing(f"Tesseract has no data for {wanted}: install tesseract-ocr-{languages[0]}.")
        return cls(usable, finds_turn="osd" in installed, timeout_s=timeout_s)

    @property
    def missing(self) -> str:
        return ""

    async def recognise(self, png: bytes) -> Sequence[OcrWord]:
        process = await self._started()
        try:
            _limit(process)
            async with asyncio.timeout(self._timeout_s):
                output, _ = await process.communicate(png)
        except TimeoutError:
            raise OcrFailed(f"recognising the page took longer than {self._timeout_s:g} seconds") from None
        finally:
            await _end(process)
        if process.returncode != 0:
            raise OcrFailed(f"Tesseract ended with {process.returncode}")
        return list(_words(output.decode("utf-8", errors="replace")))

    async def _started(self) -> Process:
        starting = asyncio.create_subprocess_exec(
            PROGRAM,
            *("stdin", "stdout", "-l", "+".join(self.languages), "--psm", self._segmentation),
            # Only the plain text then says where Korean and Chinese words end, and only the table where they stand.
            *("-c", "preserve_interword_spaces=1", "tsv", "txt"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=_environment(),
            start_new_session=True,
        )
        return await spawned(starting, _end)


def _environment() -> dict[str, str]:
    # With more than one thread Tesseract is many times slower, because its threads wait for each other.
    return {name: os.environ[name] for name in _INHERITED if name in os.environ} | {"OMP_THREAD_LIMIT": "1"}


def _installed_languages() -> frozenset[str]:
    try:
        listed = subprocess.run(  # noqa: S603  no shell, and the words are ours
            (PROGRAM, "--list-langs"),
            capture_output=True,
            text=True,
            timeout=_LISTING_TIMEOUT_S,
            env=_environment(),
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise TesseractMissing(f"Tesseract does not run ({type(error).__name__}): install it anew.") from error
    return frozenset(listed.stdout.split())


def _limit(process: Process) -> None:
    with suppress(ProcessLookupError):
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))


async def _end(process: Process) -> None:
    """Kills the whole group, in case the program started others, and reaps it; harmless when it is gone.

    It may have ended itself and left behind what holds its output open; that still keeps its group's number taken.
    """
    assert process.stdout is not None
    if process.returncode is not None and process.stdout.at_eof():
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        async with asyncio.timeout(_CLOSING_S):
            await process.communicate()
    except TimeoutError:  # what has left the group and holds the output open is nothing to wait for
        # asyncio has no other way to give up a pipe, and its types do not know this one
        process._transport.close()  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class _Row:
    """Of Tesseract's table; in pixels."""

    level: str
    paragraph: tuple[str, str]
    line: tuple[str, str, str]
    left: int
    top: int
    width: int
    height: int
    confidence: float
    text: str

    @classmethod
    def of(cls, columns: Sequence[str]) -> _Row:
        block, paragraph, line = columns[2:5]
        left, top, width, height = map(int, columns[6:10])
        confidence = float(columns[10]) / 100
        return cls(
            columns[0],
            (block, paragraph),
            (block, paragraph, line),
            left,
            top,
            width,
            height,
            confidence,
            columns[11].strip(),
        )


def _words(output: str) -> Iterator[OcrWord]:
    """From the table, with its heading, and the plain text that follows it."""
    rows: list[_Row] = []
    text: list[str] = []
    for line in output.split("\n")[1:]:
        columns = line.split("\t")
        if len(columns) == _COLUMNS:
            rows.append(_Row.of(columns))
        else:
            text.append(line)
    pages = [row for row in rows if row.level == _PAGE]
    if not pages:
        return
    width, height = max(pages[0].width, 1), max(pages[0].height, 1)
    words = [row for row in rows if row.level == _WORD and row.text]
    turns = _turns(words)
    heights = _line_heights(rows, turns)
    numbers: dict[tuple[str, str, str], int] = {}
    for row, glued in zip(words, _glued(words, "\n".join(text)), strict=True):
        box = Box(row.left / width, row.top / height, (row.left + row.width) / width, (row.top + row.height) / height)
        number = numbers.setdefault(row.line, len(numbers))
        size = heights[row.paragraph] / height
        yield OcrWord(row.text, box, number, size, turns[row.paragraph], glued, row.confidence)


def _turns(words: Sequence[_Row]) -> dict[tuple[str, str], int]:
    """For each paragraph which way its words follow each other."""
    across: Counter[tuple[str, str]] = Counter()
    down: Counter[tuple[str, str]] = Counter()
    for word, following in pairwise(words):
        across[word.paragraph] += abs(following.left - word.left) if word.line == following.line else 0
        down[word.paragraph] += following.top - word.top if word.line == following.line else 0
    return {
        word.paragraph: 0
        if across[word.paragraph] >= abs(down[word.paragraph])
        else (90 if down[word.paragraph] > 0 else 270)
        for word in words
    }


def _line_heights(rows: Sequence[_Row], turns: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], float]:
    lines: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for row in rows:
        if row.level == _LINE:
            lines[row.paragraph].append(row.width if turns.get(row.paragraph) else row.height)
    return {paragraph: median(heights) for paragraph, heights in lines.items()}


def _glued(words: Sequence[_Row], text: str) -> Iterator[bool]:
    """For each word whether the text has no white space before it."""
    position = 0
    for word in words:
        found = text.find(word.text, position)
        yield found == position and position > 0
        position = position if found < 0 else found + len(word.text)
