"""What a run tells, on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer


def show_event(event: Mapping[str, Any]) -> None:
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


def show_sources(readahead: Mapping[str, Any]) -> None:
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
