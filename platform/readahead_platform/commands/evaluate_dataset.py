"""`readahead eval --dataset FOLDER`: how well retrieval finds what a folder of questions says it should."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from readahead_platform.errors import StartError
from readahead_platform.settings import Settings, read_settings

if TYPE_CHECKING:
    from readahead_retrieval.evaluation.runner import Report


def evaluate_folder(folder: Path, *, as_json: bool) -> Report:
    """A BEIR folder, or one of PDFs with questions.jsonl; with the settings' embedding model, without a server.

    Raises:
        QuestionsInvalid: The folder is neither, or a file in it is not what it should be.
    """
    from readahead_platform.commands.models import ensure_models

    settings = read_settings().settings
    if not settings.serving.embedding_model:
        raise StartError("serving.embedding_model is empty, and nothing is searched without one.")
    (model,) = ensure_models(settings, [settings.serving.embedding_model], as_json=as_json)
    return asyncio.run(_evaluate(folder, model, settings, as_json=as_json))


async def _evaluate(folder: Path, model: Path, settings: Settings, *, as_json: bool) -> Report:
    from readahead_platform.commands.progress import progress_view
    from readahead_platform.own_embedder import own_embedder
    from readahead_retrieval.embedders.prefixed import prepared
    from readahead_retrieval.evaluation.dataset import is_dataset, read_dataset
    from readahead_retrieval.evaluation.documents import evaluate_documents
    from readahead_retrieval.evaluation.passages import SecondLook, evaluate_dataset
    from readahead_retrieval.rerank import reranker
    from readahead_retrieval.tokens import TokenizerCounter

    counter = TokenizerCounter.from_file(model / "tokenizer.json")
    async with own_embedder(model, settings.serving) as embedder:
        with progress_view(as_json=as_json) as view:

            def show(stage: str, done: int, total: int) -> None:
                view.update(folder.name, stage, done, total)

            if not is_dataset(folder):
                return await evaluate_documents(folder, settings.retrieval, embedder, counter, on_progress=show)
            used = prepared(embedder, counter, settings.retrieval)
            name, candidates = settings.retrieval.reranker_model, settings.retrieval.candidates
            second = SecondLook(await reranker(name), settings.retrieval.rerank_candidates) if name else None
            return await evaluate_dataset(
                read_dataset(folder), used, candidates=candidates, counter=counter, second=second, on_progress=show
            )
