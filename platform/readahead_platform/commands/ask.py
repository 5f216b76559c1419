"""`readahead ask KB "question"`: the answer as it comes, then where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

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
    """Ask a knowledge base; prints the answer, then its citations."""
    from readahead_platform.client import GatewayClient

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
            _show_event(event)
        for choice in chunk["choices"]:
            typer.echo(choice["delta"].get("content") or "", nl=False)
            if "readahead" in choice["delta"]:
                typer.echo()
                _show_sources(choice["delta"]["readahead"])


def _show_event(event: Mapping[str, Any]) -> None:
    """To stderr, so that the answer alone can be piped."""
    match event["type"]:
        case "route":
            typer.secho(f"route: {event['chosen']} ({event['why']})", err=True, dim=True)
        case "plan":
            typer.secho(f"plan: {len(event['steps'])} steps ({event['reasoning']})", err=True, dim=True)
        case "step_started":
            typer.secho(f"step {event['step']}: {event['tool']}", err=True, dim=True)
        case "step_finished":
            outcome = "done" if event["ok"] else "failed"
            typer.secho(
                f"step {event['step']}: {outcome} in {event['elapsed_ms']:.0f} ms: {event['summary']}",
                err=True,
                dim=True,
            )


def _show_sources(readahead: Mapping[str, Any]) -> None:
    for note in readahead["notes"]:
        typer.secho(f"note: {note}", err=True, dim=True)
    if readahead["citations"]:
        typer.echo("\nSources:")
    for number, citation in enumerate(readahead["citations"], start=1):
        quote = " ".join(citation["quote"].split())
        typer.echo(f"  [{number}] {citation['document']}, page {_page(citation)}: “{quote}”")


def _page(citation: Mapping[str, Any]) -> str:
    """The page as a viewer counts it, and what is printed on it where that differs: as in the answers."""
    number, label = str(citation["page"]), citation["page_label"]
    return number if label in ("", number) else f"{number} (“{label}”)"
