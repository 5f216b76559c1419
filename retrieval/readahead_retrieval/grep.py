"""Lines of documents that match a pattern: what a search by meaning cannot promise, an exact answer."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import re2

from readahead_retrieval.errors import QueryError
from readahead_retrieval.library import Library
from readahead_retrieval.types import Document, DocumentState, Page

MAX_PATTERN_CHARS = 500
MAX_SECONDS = 10.0
MAX_LINE_CHARS = 400
_MAX_PROGRAM_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LineMatch:
    """A line of a page that matches."""

    page: int
    line: int
    """1-based, counted over the page's text."""
    text: str
    """The line; the part around the match, where it is longer than `MAX_LINE_CHARS`."""


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    """A line of a document that matches."""

    document: Document
    match: LineMatch


class LinePattern:
    """A literal text or a regular expression, matched line by line.

    Expressions are RE2's: matching takes time linear in the text, whatever the pattern, so that a pattern from anyone
    may be run.
    """

    def __init__(self, pattern: str, *, is_regex: bool = False, ignore_case: bool = True) -> None:
        """Raises `QueryError` for a pattern that is empty, too long or not RE2's."""
        if not pattern.strip() or len(pattern) > MAX_PATTERN_CHARS:
            raise QueryError(f"The pattern must hold 1 to {MAX_PATTERN_CHARS} characters; it holds {len(pattern)}.")
        options = re2.Options()
        options.case_sensitive = not ignore_case
        options.log_errors = False
        options.max_mem = _MAX_PROGRAM_BYTES
        try:
            self._compiled = re2.compile(pattern if is_regex else re2.escape(pattern), options)
        except re2.error as error:
            why = b"".join(error.args).decode(errors="replace")  # RE2's own words, in bytes
            message = f"The pattern {pattern!r} is no regular expression that can be run: {why}."
            raise QueryError(message) from error

    def matches(self, pages: Iterable[Page], deadline: float) -> Iterator[LineMatch]:
        """The matching lines in order, until `deadline` (of `time.monotonic()`), looked at before each page."""
        for page in pages:
            if time.monotonic() > deadline:
                return
            for number, line in enumerate(page.text.splitlines(), 1):
                found = self._compiled.search(line)
                if found is not None:
                    yield LineMatch(page.number, number, _around(line, found.start()))


def _around(line: str, start: int) -> str:
    if len(line) <= MAX_LINE_CHARS:
        return line
    first = max(0, min(start - MAX_LINE_CHARS // 4, len(line) - MAX_LINE_CHARS))
    return line[first : first + MAX_LINE_CHARS]


async def grep(
    library: Library, tenant: str, kb: str, pattern: LinePattern, *, skip: int, limit: int
) -> tuple[list[DocumentMatch], bool]:
    """The matching lines of a knowledge base, oldest document first; none of what only disabled chunks hold.

    Args:
        skip: Matches to pass over, for the next page of results.

    Returns:
        At most `limit` matches, and whether there may be more: of documents that were not looked at within
        `MAX_SECONDS`, too.
    """
    deadline = time.monotonic() + MAX_SECONDS
    found: list[DocumentMatch] = []
    wanted = skip + limit
    for document in await library.list_documents(tenant, kb):
        if document.state is not DocumentState.SEARCHABLE:
            continue
        pages = await library.texts.visible_pages(tenant, document.id)
        matches = await asyncio.to_thread(_first, pattern.matches(pages, deadline), wanted + 1 - len(found))
        found += (DocumentMatch(document, match) for match in matches)
        if len(found) > wanted or time.monotonic() > deadline:
            return found[skip:wanted], True
    return found[skip:wanted], False


def _first(matches: Iterator[LineMatch], count: int) -> list[LineMatch]:
    return list(itertools.islice(matches, count))
