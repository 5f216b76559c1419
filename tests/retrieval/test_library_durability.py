"""What was accepted survives: a restart, a damaged index, another embedding model."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from readahead_retrieval.errors import EmptyKnowledgeBase
from readahead_retrieval.types import DocumentState
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, TermEmbedder, add, finished, opened, upload


def generation_folder(home: Path) -> Path:
    (folder,) = home.glob("indexes/*/*")
    return folder


async def ingested(home: Path, path: Path) -> None:
    async with opened(home) as library:
        await library.create_kb(TENANT, "k")
        assert (await add(library, "k", path)).state is DocumentState.SEARCHABLE


async def hotel_pages(home: Path, embedder: TermEmbedder | None = None) -> list[int]:
    async with opened(home, embedder) as library:
        return [e.page for e in await library.search(TENANT, "k", "hotel nights breakfast", top_k=1)]


async def test_a_library_answers_after_it_was_opened_again_without_embedding_anything_anew(
    tmp_path: Path, handbook: Path
) -> None:
    await ingested(tmp_path, handbook)
    embedder = TermEmbedder()
    assert await hotel_pages(tmp_path, embedder) == [2]
    assert embedder.asked == 1  # the query


async def test_a_document_that_waited_when_the_library_closed_is_ingested_by_the_next_open(
    tmp_path: Path, handbook: Path
) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        added = await library.add_document(TENANT, "k", await upload(library, handbook))
    async with opened(tmp_path) as library:
        assert (await finished(library, added.id)).state is DocumentState.SEARCHABLE


def index_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


DAMAGE: list[Callable[[Path], None]] = [flip_a_byte, cut_short, Path.unlink]


@pytest.mark.parametrize("damage", DAMAGE, ids=["flipped", "cut short", "missing"])
async def test_whatever_file_of_an_index_is_damaged_it_is_rebuilt_and_answers_right(
    tmp_path: Path, handbook: Path, damage: Callable[[Path], None]
) -> None:
    await ingested(tmp_path, handbook)
    manifest = json.loads((generation_folder(tmp_path) / "manifest.json").read_bytes())
    assert {"dense.faiss", "lexical/meta.json"} < set(manifest["files"])
    for position in range(1 + len(manifest["files"])):
        before = generation_folder(tmp_path)
        damage(index_files(before)[position])
        assert await hotel_pages(tmp_path) == [2]
        assert generation_folder(tmp_path) != before


async def test_an_index_folder_that_is_gone_is_rebuilt(tmp_path: Path, handbook: Path) -> None:
    await ingested(tmp_path, handbook)
    shutil.rmtree(tmp_path / "indexes")
    assert await hotel_pages(tmp_path) == [2]


async def test_an_index_of_another_time_does_not_pass_for_the_current_one(tmp_path: Path, handbook: Path) -> None:
    other = samples.write_pdf(tmp_path / "other.pdf", samples.lines("Hotels by the harbour have sixty rooms."))
    home = tmp_path / "home"
    await ingested(home, handbook)
    first, old = generation_folder(home), tmp_path / "old"
    shutil.copytree(first, old)
    async with opened(home) as library:
        await add(library, "k", other)
    (current,) = set(home.glob("indexes/*/*")) - {first}  # the first is swept now or at the next open
    shutil.rmtree(current)
    shutil.copytree(old, current)  # sound in itself, and not what was published
    async with opened(home) as library:
        assert [e.document for e in await library.search(TENANT, "k", "harbour rooms", top_k=1)] == ["other.pdf"]


async def test_half_written_and_forgotten_generations_are_swept_away(tmp_path: Path, handbook: Path) -> None:
    await ingested(tmp_path, handbook)
    current = generation_folder(tmp_path)
    for leftover in (current.with_name("gen_x.partial"), current.with_name("gen_y"), current.parent.parent / "vs_gone"):
        (leftover / "lexical").mkdir(parents=True)
    assert await hotel_pages(tmp_path) == [2]
    assert generation_folder(tmp_path) == current


async def test_another_embedding_model_of_the_same_width_embeds_everything_anew(tmp_path: Path, handbook: Path) -> None:
    await ingested(tmp_path, handbook)
    new = TermEmbedder("terms-2")
    async with opened(tmp_path, new) as library:
        (job,) = await library.jobs.list(TENANT)
        async with asyncio.timeout(60):
            seen = [job async for job in library.jobs.watch(TENANT, job.id)]
        assert seen[-1].document.state is DocumentState.SEARCHABLE
        found = await library.search(TENANT, "k", "hotel nights breakfast", top_k=1)
        assert (found[0].page, found[0].ranks) == (2, {"dense": 1, "lexical": 1})
        assert found[0].similarity > 0.3
    assert json.loads((generation_folder(tmp_path) / "manifest.json").read_bytes())["embedding_model"] == "terms-2"


async def test_until_another_model_has_embedded_everything_words_alone_find_it(tmp_path: Path, handbook: Path) -> None:
    await ingested(tmp_path, handbook)
    away = TermEmbedder("terms-2")
    away.failures = lambda asked: True
    async with opened(tmp_path, away, embed_attempts=1000, embed_backoff_s=5.0) as library:
        found = await library.search(TENANT, "k", "hotel nights breakfast", top_k=1)
    assert (found[0].page, found[0].ranks) == (2, {"lexical": 1})


async def test_a_file_that_breaks_every_start_is_given_up(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        added = await library.add_document(TENANT, "k", await upload(library, handbook))
    with sqlite3.connect(tmp_path / "readahead.db") as database:  # as three killed processes leave it
        database.execute("update jobs set attempts = 3, state = 'running'")
    database.close()
    async with opened(tmp_path) as library:
        document = await finished(library, added.id)
        assert (document.state, document.error_code) == (DocumentState.FAILED, "internal")
        with pytest.raises(EmptyKnowledgeBase):
            await library.search(TENANT, "k", "hotel")
