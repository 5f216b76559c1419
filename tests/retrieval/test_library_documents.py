"""Documents: one for each file's bytes, each ends as what it is, and what is removed is gone at once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

from readahead_retrieval.errors import (
    AlreadyExists,
    DocumentError,
    EmptyKnowledgeBase,
    InvalidName,
    LibraryInUse,
    NotFound,
)
from readahead_retrieval.types import Document, DocumentState
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, TermEmbedder, add, blocks, finished, opened, until, upload


def manifest_chunks(home: Path) -> list[int]:
    """Chunks in each generation on disk."""
    return [json.loads(path.read_bytes())["chunks"] for path in home.glob("indexes/*/*/manifest.json")]


async def test_the_same_bytes_twice_are_one_document(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        first = await add(library, "k", handbook)
        again = await library.add_document(TENANT, "k", await upload(library, handbook, name="copy.pdf"))
        assert again == first
        assert [d.id for d in await library.list_documents(TENANT, "k")] == [first.id]
        kb = await library.get_kb(TENANT, "k")
        assert (kb.documents, kb.searchable) == (1, 1)
        assert kb.bytes == (await library.files.get(TENANT, first.file_id)).bytes


async def test_many_uploads_of_the_same_bytes_at_once_are_one_document(tmp_path: Path, handbook: Path) -> None:
    embedder = TermEmbedder()
    async with opened(tmp_path, embedder) as library:
        await library.create_kb(TENANT, "k")

        async def one() -> Document:
            return await library.add_document(TENANT, "k", await upload(library, handbook))

        ids = {document.id for document in await asyncio.gather(*(one() for _ in range(8)))}
        assert len(ids) == 1
        document = await finished(library, ids.pop())
    assert embedder.asked == -(-document.chunks // 2)  # each batch of two was embedded once


async def test_a_document_is_watched_from_the_queue_to_searchable(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        added = await library.add_document(TENANT, "k", await upload(library, handbook))
        async with asyncio.timeout(60):
            seen = [document async for document in library.watch(TENANT, added.id)]
    order = list(DocumentState)
    states = [order.index(document.state) for document in seen]
    assert states == sorted(states)
    assert seen[-1].state is DocumentState.SEARCHABLE
    assert DocumentState.EMBEDDING in {document.state for document in seen}


@pytest.fixture
def unreadable(tmp_path: Path, handbook: Path) -> dict[str, Path]:
    """By the error that each gives."""
    empty, text, broken = tmp_path / "empty.pdf", tmp_path / "text.pdf", tmp_path / "broken.pdf"
    empty.write_bytes(b"")
    text.write_bytes(b"Dear reader, this is no PDF." * 40)
    broken.write_bytes(b"%PDF-1.7\n" + b"\x00\xff" * 4000)
    return {
        "empty_file": empty,
        "not_pdf": text,
        "corrupt": broken,
        "needs_ocr": samples.write_pdf(tmp_path / "scan.pdf", samples.picture_of_text),
        "no_text": samples.write_pdf(tmp_path / "blank.pdf", samples.blank),
        "password_required": samples.locked(tmp_path / "locked.pdf", handbook, user="sesame", owner="owner"),
    }


@pytest.mark.parametrize("code", ["empty_file", "not_pdf", "corrupt", "needs_ocr", "no_text", "password_required"])
async def test_a_file_that_cannot_be_read_fails_with_its_reason(
    tmp_path: Path, unreadable: dict[str, Path], code: str
) -> None:
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", unreadable[code])
        assert (document.state, document.error_code, document.error_retryable) == (DocumentState.FAILED, code, False)
        assert document.error_message
        with pytest.raises(EmptyKnowledgeBase):
            await library.search(TENANT, "k", "anything")


async def test_a_locked_file_is_read_once_its_password_comes(tmp_path: Path, unreadable: dict[str, Path]) -> None:
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        failed = await add(library, "k", unreadable["password_required"])
        document = await library.add_document(TENANT, "k", failed.file_id, "sesame")
        assert (document.id, document.state, document.error_code) == (failed.id, DocumentState.QUEUED, None)
        assert (await finished(library, document.id)).state is DocumentState.SEARCHABLE
        assert (await library.render_page(TENANT, document.id, 1)).startswith(b"\x89PNG")


async def test_pages_without_text_are_named_and_the_others_are_searchable(tmp_path: Path) -> None:
    path = samples.write_pdf(
        tmp_path / "mixed.pdf", samples.lines("The harbour opens at six."), samples.picture_of_text, samples.blank
    )
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", path)
    assert document.state is DocumentState.SEARCHABLE
    assert (document.pages, document.pages_unread) == (3, (2,))


async def test_an_embedding_service_that_comes_back_is_waited_for(tmp_path: Path, handbook: Path) -> None:
    embedder = TermEmbedder()
    embedder.failures = lambda asked: asked in {2, 3}
    async with opened(tmp_path, embedder) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", handbook)
    assert document.state is DocumentState.SEARCHABLE


async def test_an_embedding_service_that_stays_away_fails_the_document_and_loses_nothing(
    tmp_path: Path, handbook: Path
) -> None:
    embedder = TermEmbedder()
    embedder.failures = lambda asked: asked > 1
    async with opened(tmp_path, embedder) as library:
        await library.create_kb(TENANT, "k")
        failed = await add(library, "k", handbook)
        assert (failed.state, failed.error_code) == (DocumentState.FAILED, "embedder_unavailable")
        assert failed.error_retryable
        assert 0 < failed.chunks_done < failed.chunks

        embedder.failures = lambda asked: False
        asked = embedder.asked
        await library.add_document(TENANT, "k", failed.file_id)
        assert (await finished(library, failed.id)).state is DocumentState.SEARCHABLE
        left = failed.chunks - failed.chunks_done
        assert embedder.asked - asked == -(-left // 2)


async def test_a_failed_document_leaves_the_searchable_ones_as_they_are(
    tmp_path: Path, handbook: Path, unreadable: dict[str, Path]
) -> None:
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", handbook)
        await add(library, "k", unreadable["corrupt"])
        assert [e.page for e in await library.search(TENANT, "k", "hotel nights", top_k=1)] == [2]


async def test_a_removed_document_answers_no_more_from_that_moment(tmp_path: Path, handbook: Path) -> None:
    other = samples.write_pdf(tmp_path / "other.pdf", samples.lines("Hotels by the harbour have sixty rooms."))
    home = tmp_path / "home"
    async with opened(home) as library:
        await library.create_kb(TENANT, "k")
        removed = await add(library, "k", handbook)
        kept = await add(library, "k", other)
        evidence = await library.search(TENANT, "k", "hotel nights")
        await library.remove_document(TENANT, removed.id)

        found = await library.search(TENANT, "k", "hotel nights")
        assert {e.document_id for e in found} == {kept.id}
        assert await library.cite(TENANT, "Hotels are paid up to 140 euros for each night.", evidence) == []
        with pytest.raises(NotFound):
            await library.get_document(TENANT, removed.id)
        await until(lambda: manifest_chunks(home) == [kept.chunks])  # purged, and the old generation is gone
        assert {e.document_id for e in await library.search(TENANT, "k", "hotel nights")} == {kept.id}


async def test_removing_the_last_document_leaves_an_empty_knowledge_base(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", handbook)
        await library.remove_document(TENANT, document.id)
        with pytest.raises(EmptyKnowledgeBase):
            await library.search(TENANT, "k", "hotel nights")
        await until(lambda: manifest_chunks(tmp_path) == [])
        again = await library.add_document(TENANT, "k", document.file_id)
        assert again.id != document.id
        assert (await finished(library, again.id)).state is DocumentState.SEARCHABLE


async def test_a_deleted_file_takes_its_documents_along(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", handbook)
        path = await library.files.path(TENANT, document.file_id)
        await library.files.delete(TENANT, document.file_id)
        assert not path.exists()
        assert await library.list_documents(TENANT, "k") == []
        with pytest.raises(EmptyKnowledgeBase):
            await library.search(TENANT, "k", "hotel nights")


async def test_a_document_may_be_removed_while_it_is_embedded(tmp_path: Path, handbook: Path) -> None:
    embedder = TermEmbedder()
    async with opened(tmp_path, embedder) as library:
        await library.create_kb(TENANT, "k")
        added = await library.add_document(TENANT, "k", await upload(library, handbook))
        with pytest.raises(NotFound):
            async for document in library.watch(TENANT, added.id):
                if document.state is DocumentState.EMBEDDING:
                    await library.remove_document(TENANT, added.id)
        assert (await add(library, "k", handbook)).state is DocumentState.SEARCHABLE  # the worker lives


async def test_deleting_a_knowledge_base_ends_what_is_under_way_in_it(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        added = await library.add_document(TENANT, "k", await upload(library, handbook))
        with pytest.raises(NotFound):
            async for _ in library.watch(TENANT, added.id):
                await library.delete_kb(TENANT, "k")
        assert await library.list_kbs(TENANT) == []
        await until(lambda: not list(tmp_path.glob("indexes/*")))
        await library.create_kb(TENANT, "k")
        assert (await add(library, "k", handbook)).state is DocumentState.SEARCHABLE


async def test_a_crowd_of_documents_is_published_in_few_generations(tmp_path: Path) -> None:
    paths = [
        samples.write_pdf(tmp_path / f"{n}.pdf", samples.lines(f"Room {n} belongs to department {n * 7}."))
        for n in range(12)
    ]
    async with opened(tmp_path / "home") as library:
        kb = await library.create_kb(TENANT, "k")
        files = [await upload(library, path) for path in paths]
        added = [await library.add_document(TENANT, "k", file_id) for file_id in files]
        ends = [await finished(library, document.id) for document in added]
        assert {document.state for document in ends} == {DocumentState.SEARCHABLE}
        (folder,) = (tmp_path / "home" / "indexes" / kb.id).iterdir()
        assert json.loads((folder / "manifest.json").read_bytes())["chunks"] == 12
        found = await library.search(TENANT, "k", "Room 5 department 35", top_k=1)
        assert found[0].document == "5.pdf"


async def test_a_file_is_kept_byte_for_byte_under_a_composed_name(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        file_id = await upload(library, handbook, name="C:\\mine\\Ha\u0308ndbuch.pdf")
        file = await library.files.get(TENANT, file_id)
        assert file.name == "H\u00e4ndbuch.pdf"
        path = await library.files.path(TENANT, file_id)
    sent, kept = [await asyncio.to_thread(p.read_bytes) for p in (handbook, path)]
    assert kept == sent
    assert (file.sha256, file.bytes) == (hashlib.sha256(sent).hexdigest(), len(sent))


async def test_a_file_over_the_limit_leaves_nothing_behind(tmp_path: Path) -> None:
    async with opened(tmp_path, max_file_bytes=1000) as library:
        with pytest.raises(DocumentError) as caught:
            await library.files.save(TENANT, "big.pdf", blocks(b"x" * 1001, size=100))
        assert caught.value.code == "too_large"
        assert await library.files.list(TENANT) == []
    assert [path for path in (tmp_path / "files").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 256, "folder/"])
async def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path) as library:
        with pytest.raises(InvalidName):
            await library.files.save(TENANT, name, blocks(b"x"))


@pytest.mark.parametrize("name", ["", " \t", "a\nb", "a\u2028b", "\u200b", "/a", "a/", "/"])
async def test_a_knowledge_base_needs_a_name_that_can_be_seen_and_asked(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path) as library:
        with pytest.raises(InvalidName):
            await library.create_kb(TENANT, name)
        assert (await library.create_kb(TENANT, "a/b 공유 🙂")).name == "a/b 공유 🙂"


async def test_a_knowledge_base_is_found_by_name_in_either_form_and_by_id(tmp_path: Path) -> None:
    async with opened(tmp_path) as library:
        kb = await library.create_kb(TENANT, "re\u0301sume\u0301s")
        assert kb.name == "r\u00e9sum\u00e9s"
        assert await library.get_kb(TENANT, "re\u0301sume\u0301s") == await library.get_kb(TENANT, kb.id) == kb
        with pytest.raises(AlreadyExists):
            await library.create_kb(TENANT, kb.name)


async def test_one_home_is_open_in_one_place_only(tmp_path: Path) -> None:
    async with opened(tmp_path):
        with pytest.raises(LibraryInUse):
            async with opened(tmp_path):
                pass
    async with opened(tmp_path):
        pass


def forget_ids_given(database: Path) -> None:
    """So that the next chunk has an id of one that is gone."""
    connection = sqlite3.connect(database)
    connection.execute("delete from sqlite_sequence where name = 'chunks'")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("given_again", [False, True])
async def test_a_document_that_comes_while_the_newest_goes_is_not_mistaken_for_it(
    tmp_path: Path, *, given_again: bool
) -> None:
    """The index of before still holds the newest one's passages, under ids that others bear if the database errs."""
    pumps = samples.write_pdf(tmp_path / "pumps.pdf", samples.lines("The pump of the well weighs 41 kilograms."))
    leave = samples.write_pdf(tmp_path / "leave.pdf", samples.lines("Annual leave is lost at the end of March."))
    hotels = samples.write_pdf(tmp_path / "hotels.pdf", samples.lines("Hotels are paid up to 140 euros a night."))
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", pumps)
        going = await add(library, "k", leave)
        ids = {chunk.id for chunk in await library.chunks.list(TENANT, going.id)}
        coming = await library.add_document(TENANT, "k", await upload(library, hotels))
        await library.remove_document(TENANT, going.id)
        if given_again:
            await asyncio.to_thread(forget_ids_given, tmp_path / "home" / "readahead.db")
        assert (await finished(library, coming.id)).state is DocumentState.SEARCHABLE
        assert ids.isdisjoint({chunk.id for chunk in await library.chunks.list(TENANT, coming.id)}) is not given_again
        (found,) = await library.search(TENANT, "k", "hotels paid a night", top_k=1)
        assert (found.document, set(found.ranks)) == ("hotels.pdf", {"dense", "lexical"})
        gone = await library.search(TENANT, "k", "annual leave lost in March")
        assert not [item for item in gone if "lexical" in item.ranks], "no passage is found by words that are gone"
