"""What belongs to another tenant does not exist, whatever method is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from readahead_retrieval.errors import NotFound
from readahead_retrieval.library import Library
from readahead_retrieval.types import Document, DocumentState, Evidence
from tests.retrieval.library_parts import TENANT, add, opened

INTRUDER = "umbrella"
ANSWER = "Hotels are paid up to 140 euros for each night."


@dataclass(frozen=True)
class Theirs:
    """A searchable document of TENANT's, its id and name known to the intruder."""

    library: Library
    document: Document
    evidence: list[Evidence]


@pytest.fixture
async def theirs(tmp_path: Path, handbook: Path) -> AsyncIterator[Theirs]:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", handbook)
        yield Theirs(library, document, await library.search(TENANT, "k", "hotel nights"))


async def watch_all(t: Theirs) -> None:
    async for _ in t.library.watch(INTRUDER, t.document.id):
        pass


Attempt = Callable[[Theirs], Awaitable[object]]
ATTEMPTS: dict[str, Attempt] = {
    "get_kb by name": lambda t: t.library.get_kb(INTRUDER, "k"),
    "get_kb by id": lambda t: t.library.get_kb(INTRUDER, t.document.kb_id),
    "delete_kb": lambda t: t.library.delete_kb(INTRUDER, t.document.kb_id),
    "get_file": lambda t: t.library.files.get(INTRUDER, t.document.file_id),
    "file_path": lambda t: t.library.files.path(INTRUDER, t.document.file_id),
    "delete_file": lambda t: t.library.files.delete(INTRUDER, t.document.file_id),
    "add_document to their kb": lambda t: t.library.add_document(INTRUDER, t.document.kb_id, t.document.file_id),
    "add_document of their file": lambda t: t.library.add_document(INTRUDER, "mine", t.document.file_id),
    "list_documents": lambda t: t.library.list_documents(INTRUDER, t.document.kb_id),
    "get_document": lambda t: t.library.get_document(INTRUDER, t.document.id),
    "attachment": lambda t: t.library.attachment(INTRUDER, t.document.kb_id, t.document.file_id),
    "remove_document": lambda t: t.library.remove_document(INTRUDER, t.document.id),
    "watch": watch_all,
    "search": lambda t: t.library.search(INTRUDER, t.document.kb_id, "hotel"),
    "render_page": lambda t: t.library.render_page(INTRUDER, t.document.id, 1),
}


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS.keys())
async def test_another_tenants_thing_is_not_found_and_stays_whole(theirs: Theirs, attempt: Attempt) -> None:
    await theirs.library.create_kb(INTRUDER, "mine")
    with pytest.raises(NotFound):
        await attempt(theirs)
    document = await theirs.library.get_document(TENANT, theirs.document.id)
    assert document.state is DocumentState.SEARCHABLE
    assert await theirs.library.search(TENANT, "k", "hotel nights")


async def test_lists_and_citations_show_nothing_of_another_tenant(theirs: Theirs) -> None:
    library = theirs.library
    assert await library.list_kbs(INTRUDER) == []
    assert await library.files.list(INTRUDER) == []
    assert await library.cite(INTRUDER, ANSWER, theirs.evidence) == []
    assert await library.cite(TENANT, ANSWER, theirs.evidence) != []


async def test_two_tenants_use_the_same_name_and_the_same_bytes_apart(theirs: Theirs, handbook: Path) -> None:
    await theirs.library.create_kb(INTRUDER, "k")
    own = await add(theirs.library, "k", handbook, tenant=INTRUDER)
    assert own.id != theirs.document.id
    found = await theirs.library.search(INTRUDER, "k", "hotel nights")
    assert {e.document_id for e in found} == {own.id}
    await theirs.library.remove_document(INTRUDER, own.id)
    assert await theirs.library.search(TENANT, "k", "hotel nights")
