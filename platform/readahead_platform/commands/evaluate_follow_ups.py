"""`readahead eval KB follow_ups.jsonl --follow-ups`: how well follow-ups find their page, by what is made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from readahead_agents.llm.base import LanguageModel
    from readahead_agents.llm.openai import OpenAILanguageModel
    from readahead_platform.client import GatewayClient
    from readahead_retrieval.evaluation.questions import Question
    from readahead_retrieval.evaluation.runner import Report

WAYS = ("alone", "joined", "rules", "model")
"""The question as it is; every one with the turns before it; by rules those that lean on them; and by the model."""
SHOWN = ("hit@1", "hit@5", "mrr")
_DEPTH = 10


def evaluate_follow_ups(kb: str, questions: Path, *, as_json: bool) -> Report:
    """Searches for each follow-up in each of `WAYS`. Questions of another matter, which none of them should change,
    are counted apart.

    Raises:
        QuestionsInvalid: The file is not one of questions.
    """
    from readahead_retrieval.evaluation.questions import read_questions

    asked = [question for question in read_questions(questions) if question.history]
    if not asked:
        raise typer.BadParameter(f"{questions} holds no question with a `history`.")
    return asyncio.run(_compare(kb, asked, as_json=as_json))


async def _compare(kb: str, asked: Sequence[Question], *, as_json: bool) -> Report:
    from readahead_platform.client import GatewayClient
    from readahead_platform.commands.knowledge_bases import id_of
    from readahead_platform.commands.progress import progress_view
    from readahead_retrieval.evaluation.runner import FoundPage, Report, evaluate

    total = Report({"questions": float(len(asked))}, {}, [])
    with GatewayClient.open() as client, progress_view(as_json=as_json) as view:
        path = f"/v1/vector_stores/{id_of(client, kb)}/search"

        async def search(text: str) -> list[FoundPage]:
            found = await asyncio.to_thread(client.found, path, {"query": text, "max_num_results": _DEPTH})
            return [FoundPage(item["filename"], item["page"], item["score"]) for item in found]

        model = _served_model(client)
        try:
            for way in WAYS:
                view.update("follow-ups", way, WAYS.index(way), len(WAYS))
                rewritten = [replace(each, text=await _query(way, each, model)) for each in asked]
                of_turns = [each for each in rewritten if not each.stands_alone]
                of_others = [each for each in rewritten if each.stands_alone]
                for name, some in ((way, of_turns), (f"{way}.other_matter", of_others)):
                    if some:
                        total = _with(total, name, await evaluate(some, search))
        finally:
            await model.aclose()
    return total


async def _query(way: str, question: Question, llm: LanguageModel) -> str:
    from readahead_agents.llm.base import Message
    from readahead_agents.memory.follow_up import joined
    from readahead_agents.memory.standalone import standalone

    history = [Message("user" if turn.role == "user" else "assistant", turn.content) for turn in question.history]
    match way:
        case "joined":
            return joined(question.text, history)
        case "rules" | "model":
            return (await standalone(llm, question.text, history, "rules" if way == "rules" else "model")).question
        case _:
            return question.text


def _served_model(client: GatewayClient) -> OpenAILanguageModel:
    """The plain model behind the gateway: the list begins with it."""
    from readahead_agents.llm.openai import OpenAILanguageModel
    from readahead_platform.credentials import read_credentials
    from readahead_platform.settings import read_settings

    settings = read_settings().settings
    key = settings.api_key or read_credentials(settings.home) or "none"
    return OpenAILanguageModel(f"{settings.client_url}/v1", client.entries("/v1/models")[0]["id"], key)


def _with(total: Report, name: str, report: Report) -> Report:
    """What `SHOWN` says of one way, beside the others."""
    return replace(
        total,
        metrics=total.metrics | {f"{name}.{metric}": report.metrics[metric] for metric in SHOWN},
        intervals=total.intervals | {f"{name}.{metric}": report.intervals[metric] for metric in SHOWN},
        misses=[*total.misses, *({**miss, "way": name} for miss in report.misses)],
    )
