"""A run of the agent on a terminal: it asks before calls that may change something."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from readahead_platform.commands.events import show_event, show_sources
from readahead_platform.errors import CommandRefused

if TYPE_CHECKING:
    from readahead_platform.client import GatewayClient

_RUNS = "/v1/agent/runs"


def show_run(client: GatewayClient, kb: str, question: str) -> None:
    """Prints what the run tells and, at last, its sources. Whoever leaves ends it."""
    run = ""
    try:
        for event in _events(client, {"kb": kb, "question": question}):
            run = event["run"]
            _show(client, event)
    except (KeyboardInterrupt, typer.Abort):
        if run:
            client.post(f"{_RUNS}/{run}/cancel", {})
        raise


def _show(client: GatewayClient, event: Mapping[str, Any]) -> None:
    match event["type"]:
        case "token":
            typer.echo(event["text"], nl=False)
        case "approval_required":
            _decide(client, event)
        case "answer":
            typer.echo()
            show_sources(event)
        case _:
            show_event(event)


def _events(client: GatewayClient, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Without asking where the key may not decide anything."""
    try:
        yield from client.stream(_RUNS, {**body, "approvals": "ask"})
    except CommandRefused as refusal:
        if refusal.code != "insufficient_scope":
            raise
        yield from client.stream(_RUNS, body)


def _decide(client: GatewayClient, event: Mapping[str, Any]) -> None:
    arguments = json.dumps(event["arguments"])  # escapes what could write over the terminal
    asked = f"Call {event['tool']} of the server {event['server']} with {arguments}?"
    approve = typer.confirm(asked, default=False, err=True)
    try:
        client.post(f"{_RUNS}/{event['run']}/approvals/{event['approval']}", {"approve": approve})
    except CommandRefused as refusal:
        typer.secho(refusal.message, err=True)
