"""`readahead eval KB questions.jsonl`: how well a knowledge base answers questions whose answers are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from readahead_platform.commands.ask import RouteOption, collect
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
    route: Annotated[RouteOption, typer.Option(help="How the questions are answered.")] = RouteOption.AUTO,
    limit: Annotated[int | None, typer.Option(min=1, help="Ask so many of the questions, spread evenly.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Questions asked at a time.")] = 4,
    follow_ups: Annotated[
        bool, typer.Option("--follow-ups", help="Compare ways to search for questions with a history.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure search, answers and what they cost on questions with known pages."""
    asking = _Asking(None if search_only else route.value, limit, concurrency)
    if follow_ups:
        report = _of_follow_ups(kb, questions, as_json=as_json)
    else:
        report = _report(kb, questions, dataset, asking, as_json=as_json)
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


@dataclass(frozen=True, slots=True)
class _Asking:
    """How the model is asked."""

    route: str | None
    """None where only the search is measured."""
    limit: int | None
    concurrency: int


def _of_follow_ups(kb: str | None, questions: Path | None, *, as_json: bool) -> Report:
    from readahead_platform.commands.evaluate_follow_ups import evaluate_follow_ups

    if kb is None or questions is None:
        raise typer.BadParameter("Name a knowledge base and a file of questions with their history.")
    return evaluate_follow_ups(kb, questions, as_json=as_json)


def _report(kb: str | None, questions: Path | None, dataset: Path | None, asking: _Asking, *, as_json: bool) -> Report:
    import asyncio

    from readahead_platform.commands.evaluate_dataset import evaluate_folder

    if dataset is not None and kb is None:
        return evaluate_folder(dataset, as_json=as_json)
    if dataset is not None or kb is None or questions is None:
        raise typer.BadParameter("Name a knowledge base and a file of questions, or --dataset alone.")
    return asyncio.run(_evaluate(kb, questions, asking, as_json=as_json))


async def _evaluate(kb: str, questions: Path, asking: _Asking, *, as_json: bool) -> Report:
    """Asks over HTTP, each question in a thread, so that what is measured is what users get."""
    import asyncio

    from readahead_platform.client import GatewayClient
    from readahead_platform.commands.answer_costs import AnswerCosts
    from readahead_platform.commands.knowledge_bases import id_of
    from readahead_platform.commands.progress import progress_view
    from readahead_retrieval.evaluation.questions import read_questions
    from readahead_retrieval.evaluation.runner import FoundPage, GivenAnswer
    from readahead_retrieval.evaluation.runner import evaluate as run

    costs, asked = AnswerCosts(), read_questions(questions)
    if any(question.history for question in asked):
        raise typer.BadParameter(f"{questions} holds follow-up questions; --follow-ups measures those.")
    asked = asked[:: max(1, len(asked) // (asking.limit or len(asked)))][: asking.limit]
    with GatewayClient.open() as client, progress_view(as_json=as_json) as view:
        path = f"/v1/vector_stores/{id_of(client, kb)}/search"

        async def search(text: str) -> list[FoundPage]:
            body = {"query": text, "max_num_results": _DEPTH}
            found = await asyncio.to_thread(client.found, path, body)
            return [FoundPage(item["filename"], item["page"], item["score"]) for item in found]

        async def ask(text: str) -> GivenAnswer:
            result = await asyncio.to_thread(lambda: collect(client.stream_chat(_question(kb, text, asking.route))))
            costs.add(result)
            citations = [FoundPage(c["document"], c["page"], c["score"]) for c in result["citations"]]
            return GivenAnswer(result["answer"], citations, result["covered"], result["quoted"])

        report = await run(
            asked,
            search,
            None if asking.route is None else ask,
            concurrency=asking.concurrency,
            on_progress=lambda done, total: view.update("questions", "asking", done, total),
        )
    return replace(report, metrics={**report.metrics, **costs.medians()})


def _question(kb: str, text: str, route: str | None) -> dict[str, Any]:
    return {
        "model": f"kb/{kb}",
        "messages": [{"role": "user", "content": text}],
        "stream_options": {"include_usage": True},
        "readahead": {"route": route},
    }
