"""Files are things of their own, even where their bytes are the same; passwords and full disks."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from readahead_retrieval.errors import DocumentRemoved, NotFound, StorageFull
from readahead_retrieval.grep import LinePattern, grep
from readahead_retrieval.ingest.intake import NewFile
from readahead_retrieval.types import DocumentState
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, add, blocks, finished, opened, upload


def blobs(home: Path) -> list[Path]:
    return [path for path in (home / "files").rglob("*") if path.is_file()]


async def test_a_document_outlives_the_first_of_the_files_that_it_was_made_from(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", handbook)
        copy = await upload(library, handbook, name="copy.pdf")
        assert (await library.attach(TENANT, "k", NewFile(copy))).document.id == document.id
        await library.files.delete(TENANT, document.file_id)

        left = await library.get_document(TENANT, document.id)
        assert (left.file_id, left.name) == (copy, "copy.pdf")
        (found,) = await library.search(TENANT, "k", "hotel nights", top_k=1)
        assert (found.page, found.document) == (2, "copy.pdf")
        assert (await library.render_page(TENANT, document.id, 2)).startswith(b"\x89PNG")
        await library.files.delete(TENANT, copy)
        with pytest.raises(DocumentRemoved, match="deleted"):
            await library.get_document(TENANT, document.id)


async def test_files_of_the_same_bytes_take_the_disk_once_until_the_last_is_deleted(
    tmp_path: Path, handbook: Path
) -> None:
    async with opened(tmp_path) as library:
        first, second = [await upload(library, handbook) for _ in range(2)]
        kept = blobs(tmp_path)
        assert len(kept) == 2
        assert len({path.stat().st_ino for path in kept}) == 1
        await library.files.delete(TENANT, first)
        path = await library.files.path(TENANT, second)
        assert await asyncio.to_thread(path.read_bytes) == await asyncio.to_thread(handbook.read_bytes)
        await library.files.delete(TENANT, second)
    assert blobs(tmp_path) == []


async def test_another_tenants_file_of_the_same_bytes_is_not_shared(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await upload(library, handbook)
        await upload(library, handbook, tenant="umbrella")
        assert len({path.stat().st_ino for path in blobs(tmp_path)}) == 2


async def test_a_renamed_file_is_read_once_and_listed_under_both_names(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", handbook)
        renamed = await upload(library, handbook, name="staff handbook.pdf")
        await library.attach(TENANT, "k", NewFile(renamed))
        listed = await library.attachments(TENANT, "k")
        assert [(a.name, a.document.id) for a in listed] == [
            ("handbook.pdf", document.id),
            ("staff handbook.pdf", document.id),
        ]
        kb = await library.get_kb(TENANT, "k")
        assert (kb.documents, kb.files.completed, kb.bytes) == (1, 2, listed[0].bytes)


async def test_a_password_opens_its_pages_after_a_restart_and_stands_nowhere_in_the_database(
    tmp_path: Path, handbook: Path
) -> None:
    password = "open-sesame-4711"
    locked = samples.locked(tmp_path / "locked.pdf", handbook, user=password, owner="owner")
    home = tmp_path / "home"
    async with opened(home) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", locked, password=password)
        assert document.state is DocumentState.SEARCHABLE
    async with opened(home) as library:
        assert (await library.render_page(TENANT, document.id, 1)).startswith(b"\x89PNG")
        files = [path for path in home.rglob("*") if path.is_file()]
        assert not [path.name for path in files if password.encode() in path.read_bytes()]
    assert (home / "document-passwords.key").stat().st_mode & 0o077 == 0


async def test_an_upload_to_a_full_disk_is_refused_in_clear_words_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with opened(tmp_path) as library:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(StorageFull, match="free some space"):
                await library.files.save(TENANT, "a.pdf", blocks(b"x" * 1000))
        assert blobs(tmp_path) == []
        assert await library.files.list(TENANT) == []


async def test_attributes_belong_to_a_file_and_stay_when_it_is_added_again_without(
    tmp_path: Path, handbook: Path
) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", handbook)
        await library.set_attributes(TENANT, "k", document.file_id, {"year": 2031.0, "draft": True})
        copy = await upload(library, handbook)
        await library.attach(TENANT, "k", NewFile(copy, attributes={"year": 2032.0}))
        again = await library.attach(TENANT, "k", NewFile(document.file_id))
        assert again.attributes == {"year": 2031.0, "draft": True}
        assert await library.matching(TENANT, "k", lambda attributes: attributes.get("year") == 2032) == [document.id]
        assert await library.matching(TENANT, "k", lambda attributes: attributes.get("year") == 2033) == []


async def test_a_file_taken_out_of_a_knowledge_base_stays_in_the_others(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        for name in ("k", "other"):
            await library.create_kb(TENANT, name)
        document = await add(library, "k", handbook)
        other = await library.add_document(TENANT, "other", document.file_id)
        await library.detach(TENANT, "k", document.file_id)
        with pytest.raises(NotFound):
            await library.attachment(TENANT, "k", document.file_id)
        assert (await finished(library, other.id)).state is DocumentState.SEARCHABLE


async def test_a_chunk_that_is_disabled_is_never_found_until_it_is_enabled(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", handbook)
        chunks = await library.chunks.list(TENANT, document.id)
        assert [chunk.ordinal for chunk in chunks] == list(range(document.chunks))
        (hotel,) = [chunk for chunk in chunks if "Hotels" in chunk.text]
        assert (hotel.first_page, hotel.disabled, hotel.embedded) == (2, False, True)

        await library.chunks.set_disabled(TENANT, document.id, hotel.id, disabled=True)
        found = await library.search(TENANT, "k", "hotel nights breakfast")
        assert found
        assert hotel.id not in {evidence.chunk_id for evidence in found}
        [page] = await library.texts.visible_pages(TENANT, document.id, hotel.first_page, hotel.first_page)
        assert hotel.text not in page.text
        assert await grep(library, TENANT, "k", LinePattern("Hotels"), skip=0, limit=9) == ([], False)
        await library.chunks.set_disabled(TENANT, document.id, hotel.id, disabled=False)
        assert (await library.search(TENANT, "k", "hotel nights breakfast"))[0].chunk_id == hotel.id
        assert len((await grep(library, TENANT, "k", LinePattern("Hotels"), skip=0, limit=9))[0]) == 1


async def test_chunks_are_as_short_as_was_asked_for_with_the_file(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path, chunk_tokens=250) as library:
        await library.create_kb(TENANT, "long")
        await library.create_kb(TENANT, "short")
        usual = await add(library, "long", handbook)
        new = NewFile(usual.file_id, chunk_tokens=16, chunk_overlap_tokens=0)
        short = await finished(library, (await library.attach(TENANT, "short", new)).document.id)
    assert short.chunks > usual.chunks
    assert (short.chunk_tokens, usual.chunk_tokens) == (16, None)
