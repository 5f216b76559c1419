"""Measures the whole way from PDF to page: a folder with `questions.jsonl` and the files that answer them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from readahead_retrieval.embedding import Embedder
from readahead_retrieval.errors import QuestionsInvalid
from readahead_retrieval.evaluation.questions import Question, read_questions
from readahead_retrieval.evaluation.runner import FoundPage, Report, evaluate
from readahead_retrieval.library import Library
from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.tokens import PortableCounter
from readahead_retrieval.types import DocumentState

DEPTH = 10
BLOCK = 1 << 20
_TENANT = _KB = "evaluation"


async def evaluate_documents(
    folder: Path,
    settings: RetrievalSettings,
    embedder: Embedder,
    counter: PortableCounter,
    *,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Ingests every PDF of the folder into a library of its own, and asks the questions that name pages.

    Raises:
        QuestionsInvalid: there is no such file of questions, no PDF, or one that does not become searchable.
    """
    told = on_progress or (lambda stage, done, total: None)
    questions, files = await asyncio.to_thread(_material, folder)
    if not questions or not files:
        raise QuestionsInvalid(f"{folder} holds no PDF, or no question that names the pages of its answer.")
    with tempfile.TemporaryDirectory(prefix="readahead-eval-") as home:
        own = settings.model_copy(update={"home": Path(home), "database_url": ""})
        library = await Library.open(own, embedder, counter)
        try:
            await library.create_kb(_TENANT, _KB)
            for done, path in enumerate(files, start=1):
                await _ingest(library, path)
                told("reading", done, len(files))

            async def search(text: str) -> list[FoundPage]:
                found = await library.search(_TENANT, _KB, text, DEPTH)
                return [FoundPage(e.document, page, e.score) for e in found for page in range(e.page, e.last_page + 1)]

            return await evaluate(questions, search, on_progress=lambda done, total: told("asking", done, total))
        finally:
            await library.close()


def _material(folder: Path) -> tuple[list[Question], list[Path]]:
    questions = [question for question in read_questions(folder / "questions.jsonl") if question.pages]
    return questions, sorted(folder.rglob("*.pdf"))


async def _ingest(library: Library, path: Path) -> None:
    file = await library.files.save(_TENANT, path.name, _blocks(path))
    document = await library.add_document(_TENANT, _KB, file.id)
    document = [state async for state in library.watch(_TENANT, document.id)][-1]
    if document.state is not DocumentState.SEARCHABLE:
        raise QuestionsInvalid(f"{path} cannot be searched: {document.error_message}")


async def _blocks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block
