"""`readahead keys …`: API keys."""

from __future__ import annotations

from typing import Annotated

import typer

from readahead_platform.commands.output import AsJson, examples, print_json, print_table

app = typer.Typer(help="API keys.", no_args_is_help=True)


@app.command(epilog=examples('keys create --label "reporting script"'))
def create(
    tenant: Annotated[str | None, typer.Option(help="Whose documents it opens; your own by default.")] = None,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="It can ask and search, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown once."""
    from readahead_platform.client import GatewayClient

    scopes = ["read"] if read_only else ["read", "write"]
    body = {"label": label, "scopes": scopes, **({"tenant": tenant} if tenant else {})}
    with GatewayClient.open() as client:
        key = client.post("/v1/keys", body)
    if as_json:
        print_json({"key": key})
    else:
        typer.echo(key["key"])
        typer.secho(f"{key['id']}, tenant {key['tenant']}. It cannot be shown again.", err=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List keys; an admin key sees those of all tenants."""
    from readahead_platform.client import GatewayClient

    with GatewayClient.open() as client:
        keys = client.entries("/v1/keys")
    if as_json:
        print_json({"keys": keys})
        return
    rows = [
        (k["id"], k["tenant"], k["hint"], k["label"], " ".join(k["scopes"]), "revoked" if k["revoked"] else "")
        for k in keys
    ]
    print_table(("ID", "TENANT", "KEY", "LABEL", "SCOPES", ""), rows)


@app.command()
def revoke(key_id: Annotated[str, typer.Argument(help="The key's id.")], as_json: AsJson = False) -> None:
    """End a key at once."""
    from readahead_platform.client import GatewayClient

    with GatewayClient.open() as client:
        key = client.delete(f"/v1/keys/{key_id}")
    if as_json:
        print_json({"key": key})
    else:
        typer.echo(f"Revoked {key['id']}.")
