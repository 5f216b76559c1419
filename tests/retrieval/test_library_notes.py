"""A document says what its file holds and is not read."""

from __future__ import annotations

from pathlib import Path

from readahead_retrieval.types import DocumentState
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, add, opened


async def test_attached_files_are_named_on_the_document(tmp_path: Path) -> None:
    source = samples.write_pdf(tmp_path / "a.pdf", samples.lines("See the attached figures."))
    path = samples.with_attachments(tmp_path / "b.pdf", source, "figures.pdf")
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "reports")
        plain, document = [await add(library, "reports", file) for file in (source, path)]
    assert document.state is DocumentState.SEARCHABLE
    assert document.notes == ("Attached files are not read: figures.pdf. Upload them by themselves.",)
    assert plain.notes == ()
