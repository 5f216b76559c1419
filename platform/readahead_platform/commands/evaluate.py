"""`readahead eval KB questions.jsonl`: how well a knowledge base answers questions whose answers are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from readahead_platform.commands.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from readahead_retrieval.evaluation.runner import Report

_DEPTH = 10


def evaluate(
    kb: Annotated[str | None, typer.Argument(help="Knowledge base.")] = None,
    questions: Annotated[
        Path | None, typer.Argument(help="A JSON object a line: question, answers, document, page.")
    ] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="A BEIR folder, or PDFs with questions.jsonl; needs no server.")
    ] = None,
    search_only: Annotated[bool, typer.Option("--search-only", help="Do not ask the model.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure search and answers on questions with known pages."""
    report = _report(kb, questions, dataset, search_only=search_only, as_json=as_json)
    if as_json:
        print_json(report.as_dict())
        return
    rows = [
        (name, f"{value:.3f}", "–".join(f"{bound:.3f}" for bound in report.intervals.get(name, ())))
        for name, value in report.metrics.items()
    ]
    print_table(("METRIC", "MEAN", "95% INTERVAL"), rows)
    for miss in report.misses:
        typer.echo(f"miss ({', '.join(miss['wrong'])}): {miss['question']}")


def _report(
    kb: str | None, questions: Path | None, dataset: Path | None, *, search_only: bool, as_json: bool
) -> Report:
    import asyncio

    from readahead_platform.commands.evaluate_dataset import evaluate_folder

    if dataset is not None and kb is None:
        return evaluate_folder(dataset, as_json=as_json)
    if dataset is not None or kb is None or questions is None:
        raise typer.BadParameter("Name a knowledge base and a file of questions, or --dataset alone.")
    return asyncio.run(_evaluate(kb, questions, search_only=search_only, as_json=as_json))


async def _evaluate(kb: str, questions: Path, *, search_only: bool, as_json: bool) -> Report:
    """Asks over HTTP, each question in a thread, so that what is measured is what users get."""
    import asyncio

    from readahead_platform.client import GatewayClient
    from readahead_platform.commands.ask import collect
    from readahead_platform.commands.knowledge_bases import id_of
    from readahead_platform.commands.progress import progress_view
    from readahead_retrieval.evaluation.questions import read_questions
    from readahead_retrieval.evaluation.runner import FoundPage, GivenAnswer
    from readahead_retrieval.evaluation.runner import evaluate as run

    asked = read_questions(questions)
    with GatewayClient.open() as client, progress_view(as_json=as_json) as view:
        path = f"/v1/vector_stores/{id_of(client, kb)}/search"

        async def search(text: str) -> list[FoundPage]:
            body = {"query": text, "max_num_results": _DEPTH}
            found = await asyncio.to_thread(client.found, path, body)
            return [FoundPage(item["filename"], item["page"], item["score"]) for item in found]

        async def ask(text: str) -> GivenAnswer:
            result = await asyncio.to_thread(lambda: collect(client.stream_chat(_question(kb, text))))
            citations = [FoundPage(c["document"], c["page"], c["score"]) for c in result["citations"]]
            return GivenAnswer(result["answer"], citations, result["covered"], result["quoted"])

        return await run(
            asked,
            search,
            None if search_only else ask,
            on_progress=lambda done, total: view.update("questions", "asking", done, total),
        )


def _question(kb: str, text: str) -> dict[str, Any]:
    return {"model": f"kb/{kb}", "messages": [{"role": "user", "content": text}]}
