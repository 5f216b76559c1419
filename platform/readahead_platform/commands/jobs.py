"""`readahead jobs …`: what is read, what waits, what failed and why."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from readahead_platform.commands.output import AsJson, counted, print_json, print_table

if TYPE_CHECKING:
    from readahead_platform.client import GatewayClient

app = typer.Typer(help="Jobs: documents on their way to being searchable.", no_args_is_help=True)
JobId = Annotated[str, typer.Argument(help="Job, as `readahead jobs list` shows it.")]
MAX_SHOWN = 10_000


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="Only those in this state, such as failed.")] = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, oldest first."""
    query = {} if state is None else {"state": state}
    with _client() as client:
        jobs = client.get("/v1/jobs", limit=MAX_SHOWN, order="asc", **query)["data"]
        names = {} if as_json else _names(client)
    if as_json:
        print_json({"jobs": jobs})
        return
    rows = [
        (job["id"], names.get(job["vector_store_id"], ""), job["document"], _state(job), _done(job), _reason(job))
        for job in jobs
    ]
    print_table(("ID", "KNOWLEDGE BASE", "DOCUMENT", "STATE", "DONE", "REASON"), rows)


@app.command()
def show(job: JobId, as_json: AsJson = False) -> None:
    """Show how far a job has come."""
    with _client() as client:
        _show(client.get(f"/v1/jobs/{job}"), as_json=as_json)


@app.command()
def retry(
    job: JobId,
    password: Annotated[str | None, typer.Option(help="Opens a password-protected file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Start a failed or cancelled job anew; what was done is kept."""
    with _client() as client:
        _show(client.post(f"/v1/jobs/{job}/retry", {"password": password}), as_json=as_json)


@app.command()
def cancel(job: JobId, as_json: AsJson = False) -> None:
    """Stop a job that waits or runs."""
    with _client() as client:
        _show(client.post(f"/v1/jobs/{job}/cancel", {}), as_json=as_json)


def _client() -> AbstractContextManager[GatewayClient]:
    from readahead_platform.client import GatewayClient

    return GatewayClient.open()


def _names(client: GatewayClient) -> dict[str, str]:
    """Of the knowledge bases, by their ids."""
    return {store["id"]: store["name"] for store in client.entries("/v1/vector_stores", limit=1000, order="asc")}


def _show(job: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json({"job": job})
        return
    reason = _reason(job)
    typer.echo(f"{job['document']}: {_state(job)}, {_done(job)}{f': {reason}' if reason else ''}")


def _state(job: dict[str, Any]) -> str:
    return str(job["state"]) if job["position"] is None else f"{job['state']} (number {job['position']})"


def _done(job: dict[str, Any]) -> str:
    """Pages while it is read, chunks afterwards."""
    if job["chunks"]:
        return f"{job['chunks_done']} of {counted(job['chunks'], 'chunk')}"
    return f"{job['pages_done']} of {counted(job['pages'], 'page')}"


def _reason(job: dict[str, Any]) -> str:
    return "" if job["error"] is None else f"{job['error']['message']} ({job['error']['code']})"
