"""What the knowledge tools do: one tenant's view of the library, every output bounded."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from readahead_agents.errors import AgentError
from readahead_agents.events import Answered, EvidenceFound, PlanMade, RunEvent, StepStarted, Token
from readahead_agents.mcp.asking import AskedRoute, Asker, RouteTaken
from readahead_agents.mcp.knowledge_results import (
    DocumentInfo,
    DocumentPages,
    GroundedAnswer,
    JobInfo,
    KnowledgeBases,
    Line,
    Lines,
    PageText,
    Passages,
    Removed,
    document_info,
    job_info,
    kb_info,
    page_uri,
    passage,
    source,
)
from readahead_retrieval import job_desk
from readahead_retrieval.errors import PageNotFound, QueryError
from readahead_retrieval.grep import LinePattern, grep
from readahead_retrieval.ingest.intake import NewFile
from readahead_retrieval.library import Library
from readahead_retrieval.types import KnowledgeBase, Page

KBS_LISTED = 100
DOCUMENTS_LISTED = 100
LINES_LISTED = 50
READ_CHARS = 16_000
"""Text of one reading: about 4,000 tokens."""
PAGES_READ = 200
"""Of one reading: those without text take none of it."""
_LITERAL = re.compile(r"[^\\^$*+?|()\[\]{}]*")
"""What no regular expression would be written for."""
_PAGES = re.compile(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?")

Tell = Callable[[str], Awaitable[None]]
"""Told what goes on while an answer is made."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The documents of one tenant, for tools. Raises `RetrievalError`s and `AgentError`s with messages for people."""

    library: Library
    asker: Asker
    tenant: str

    async def knowledge_bases(self, kb: str | None, cursor: str | None) -> KnowledgeBases:
        """All of them; or one, with its documents. Either comes in parts."""
        start = _offset(cursor)
        if kb is None:
            every = await self.library.list_kbs(self.tenant)
            end = start + KBS_LISTED
            return KnowledgeBases(
                knowledge_bases=[kb_info(each) for each in every[start:end]], next_cursor=_next(end, every)
            )
        found = await self.library.get_kb(self.tenant, kb)
        documents, end = await self.library.list_documents(self.tenant, found.id), start + DOCUMENTS_LISTED
        return KnowledgeBases(
            knowledge_bases=[kb_info(found)],
            documents=[document_info(document) for document in documents[start:end]],
            next_cursor=_next(end, documents),
        )

    async def search(self, query: str, kb: str | None, top_k: int, document_ids: Sequence[str] | None) -> Passages:
        chosen = await self._kb(kb)
        found = await self.library.search(self.tenant, chosen.id, query, top_k, document_ids)
        note = f"{len(found)} passages of {chosen.name!r}." if found else f"No results in {chosen.name!r}."
        return Passages(results=[passage(evidence) for evidence in found], note=note)

    async def grep(
        self, pattern: str, kb: str | None, cursor: str | None, *, is_regex: bool, ignore_case: bool
    ) -> Lines:
        line_pattern = LinePattern(pattern, is_regex=is_regex, ignore_case=ignore_case)
        chosen, start = await self._kb(kb), _offset(cursor)
        found, more = await grep(self.library, self.tenant, chosen.id, line_pattern, skip=start, limit=LINES_LISTED)
        matches = [
            Line(
                document_id=each.document.id,
                document=each.document.name,
                page=each.match.page,
                line=each.match.line,
                text=each.match.text,
                uri=page_uri(each.document.id, each.match.page),
            )
            for each in found
        ]
        note = (
            f"{len(matches)} matching lines of {chosen.name!r}." if matches else f"No line of {chosen.name!r} matches."
        )
        if more:
            note += " There may be more."
        if not matches and not is_regex and not _LITERAL.fullmatch(pattern):
            note += " The pattern was taken letter for letter: pass regex=true to take it as a regular expression."
        return Lines(matches=matches, note=note, next_cursor=str(start + len(found)) if more and found else None)

    async def read(self, document_id: str, pages: str | None, cursor: str | None) -> DocumentPages:
        """What answers may be made of; what a person took out of them is not shown.

        Args:
            pages: "3" or "3-5"; all where it is None.
            cursor: Where an earlier reading stopped; `pages` must be the same.
        """
        document = await self.library.get_document(self.tenant, document_id)
        first, last = _page_range(pages)
        start, offset = _reading_position(cursor, first)
        read = await self.library.texts.visible_pages(self.tenant, document_id, start, last)
        if not read and pages is not None:
            raise PageNotFound(pages, document.name, document.pages)
        texts, next_cursor = _bounded(document_id, read, offset)
        return DocumentPages(
            document_id=document.id,
            document=document.name,
            pages_in_document=document.pages,
            pages=texts,
            next_cursor=next_cursor,
        )

    async def ask(self, question: str, kb: str | None, route: AskedRoute, tell: Tell) -> GroundedAnswer:
        chosen = await self._kb(kb)
        taken, answered = RouteTaken("", ""), None
        async with aclosing(self._told(chosen, question, route, tell)) as events:
            async for event in events:
                if isinstance(event, RouteTaken):
                    taken = event
                elif isinstance(event, Answered):
                    answered = event
        if answered is None:
            raise AgentError("The run ended without an answer; ask again.")
        return GroundedAnswer(
            answer=answered.answer,
            citations=[source(citation) for citation in answered.citations],
            in_documents=answered.covered,
            notes=list(answered.notes),
            route=taken.route,
            why=taken.why,
            estimate_s=taken.estimate_s,
            facts=dict(taken.facts),
            prompt_tokens=answered.usage.prompt_tokens,
            cached_tokens=answered.usage.cached_tokens,
            completion_tokens=answered.usage.completion_tokens,
        )

    async def _told(
        self, kb: KnowledgeBase, question: str, route: AskedRoute, tell: Tell
    ) -> AsyncGenerator[RouteTaken | RunEvent, None]:
        """The events, told on the way."""
        writing = False
        async with aclosing(self.asker.ask(self.tenant, kb.id, question, route)) as events:
            async for event in events:
                if isinstance(event, Token) and not writing:
                    writing = True
                    await tell("Writing the answer.")
                elif (message := _told_of(event)) is not None:
                    await tell(message)
                yield event

    async def add(self, kb: str | None, name: str, content: bytes, *, replace: bool) -> JobInfo:
        chosen = await self._kb(kb)
        file = await self.library.files.save(self.tenant, name, _once(content))
        added = await self.library.attach(self.tenant, chosen.id, NewFile(file.id, replaces=replace))
        return job_info(await self.library.jobs.get(self.tenant, job_desk.id_of(added.document.id)))

    async def remove(self, document_id: str) -> Removed:
        document = await self.library.get_document(self.tenant, document_id)
        await self.library.remove_document(self.tenant, document_id)
        return Removed(document_id=document.id, document=document.name)

    async def job(self, job_id: str) -> JobInfo:
        return job_info(await self.library.jobs.get(self.tenant, job_id))

    async def document(self, document_id: str) -> DocumentInfo:
        return document_info(await self.library.get_document(self.tenant, document_id))

    async def _kb(self, kb: str | None) -> KnowledgeBase:
        """The named one; the only one where none is named."""
        if kb is not None:
            return await self.library.get_kb(self.tenant, kb)
        every = await self.library.list_kbs(self.tenant)
        if len(every) != 1:
            names = ", ".join(repr(each.name) for each in every[:20]) or "none"
            raise QueryError(f"Name a knowledge base as `kb`; there are: {names}.")
        return every[0]


def _told_of(event: RouteTaken | RunEvent) -> str | None:
    match event:
        case RouteTaken(route, why, estimate_s):
            estimate = "" if estimate_s is None else f" The first word is about {estimate_s:g} seconds away."
            return f"Route {route}: {why}{estimate}"
        case EvidenceFound(evidence):
            return f"Found {len(evidence)} passages."
        case PlanMade(plan):
            return f"Planned {len(plan.steps)} steps."
        case StepStarted(step, tool):
            return f"Step {step}: {tool}."
        case _:
            return None


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 9:
        raise QueryError(f"The cursor {cursor!r} is none of ours: pass `next_cursor` of the result before.")
    return int(cursor)


def _next(end: int, every: Sequence[object]) -> str | None:
    return str(end) if end < len(every) else None


def _page_range(pages: str | None) -> tuple[int, int | None]:
    if pages is None:
        return 1, None
    match = _PAGES.fullmatch(pages)
    if match is None:
        raise QueryError(f'The pages {pages!r} cannot be read: write "3" or "3-5".')
    first = int(match[1])
    last = int(match[2] or first)
    if not 1 <= first <= last:
        raise QueryError(f'The pages {pages!r} cannot be read: write "3" or "3-5", counted from 1.')
    return first, last


def _reading_position(cursor: str | None, first: int) -> tuple[int, int]:
    """Page and offset in its text."""
    if cursor is None:
        return first, 0
    page, _, offset = cursor.partition(":")
    return max(_offset(page), first), _offset(offset)


def _bounded(document_id: str, pages: Sequence[Page], offset: int) -> tuple[list[PageText], str | None]:
    """As much text as one reading holds, and where the next begins."""
    texts: list[PageText] = []
    left = READ_CHARS
    for page in pages:
        text = page.text[offset : offset + left]
        texts.append(
            PageText(page=page.number, page_label=page.label, text=text, uri=page_uri(document_id, page.number))
        )
        left -= len(text)
        if offset + len(text) < len(page.text):
            return texts, f"{page.number}:{offset + len(text)}"
        offset = 0
        if (left == 0 or len(texts) == PAGES_READ) and page is not pages[-1]:
            return texts, f"{page.number + 1}:0"
    return texts, None


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
