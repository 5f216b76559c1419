"""`readahead ask KB "question"`: the answer as it comes, then where it stands."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from readahead_platform.commands.ask_run import show_run
from readahead_platform.commands.events import show_event, show_sources
from readahead_platform.commands.output import AsJson, print_json
from readahead_platform.errors import CommandRefused


class RouteOption(StrEnum):
    """As in the API."""

    AUTO = "auto"
    CAG = "cag"
    RAG = "rag"
    AGENT = "agent"


def ask(
    kb: Annotated[str, typer.Argument(help="Knowledge base.")],
    question: Annotated[str, typer.Argument(help="What to ask.")],
    route: Annotated[RouteOption, typer.Option(help="How to answer.")] = RouteOption.AUTO,
    as_json: AsJson = False,
) -> None:
    """Ask a knowledge base; prints the answer, then its citations. In a terminal, the agent asks before calls that may
    change something."""
    from readahead_platform.client import GatewayClient

    if route is RouteOption.AGENT and not as_json and sys.stdin.isatty():
        with GatewayClient.open() as client:
            show_run(client, kb, question)
        return
    body = {
        "model": f"kb/{kb}",
        "messages": [{"role": "user", "content": question}],
        "stream_options": {"include_usage": True},
        "readahead": {"route": route.value},
    }
    with GatewayClient.open() as client:
        chunks = client.stream_chat(body)
        try:
            print_json(collect(chunks)) if as_json else _show(chunks)
        except CommandRefused as refusal:
            raise _with_hint(refusal, kb) from refusal


def _with_hint(refusal: CommandRefused, kb: str) -> CommandRefused:
    """The API speaks of models; whoever types a command thinks of knowledge bases."""
    if refusal.code != "model_not_found":
        return refusal
    return CommandRefused(
        f"There is no knowledge base {kb!r}; `readahead kb list` shows those there are.", refusal.code
    )


def collect(chunks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The whole answer as the one object that scripts read."""
    answer: list[str] = []
    result: dict[str, Any] = {}
    for chunk in chunks:
        if chunk.get("usage"):
            result["usage"] = chunk["usage"]
        for choice in chunk["choices"]:
            answer.append(choice["delta"].get("content") or "")
            result.update(choice["delta"].get("readahead") or {})
    return {"answer": "".join(answer), **result}


def _show(chunks: Iterable[Mapping[str, Any]]) -> None:
    for chunk in chunks:
        event = chunk.get("readahead", {}).get("event")
        if event:
            show_event(event)
        for choice in chunk["choices"]:
            typer.echo(choice["delta"].get("content") or "", nl=False)
            if "readahead" in choice["delta"]:
                typer.echo()
                show_sources(choice["delta"]["readahead"])
