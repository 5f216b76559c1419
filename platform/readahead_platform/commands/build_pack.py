"""Has a knowledge base's pack built and watches it until it is ready."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import typer

from readahead_platform.client import GatewayClient
from readahead_platform.commands.progress import progress_view
from readahead_platform.errors import CommandFailed

_POLL_S = 0.25
_READY = {"resident", "on_disk"}


def build_pack(
    client: GatewayClient, store: str, name: str, asked: Mapping[str, Any], *, as_json: bool
) -> dict[str, Any]:
    """The pack, once it can be asked.

    Args:
        asked: What the route is sent: how the pack is kept, and of which document it is.

    Raises:
        CommandFailed: It cannot be built; says why.
    """
    pack = client.post(f"/v1/vector_stores/{store}/pack", dict(asked))
    with progress_view(as_json=as_json) as view:
        while True:
            view.update(name, pack["state"], pack["tokens_done"], pack["tokens"])
            if pack["state"] in _READY:
                return pack
            if pack["state"] == "failed":
                raise CommandFailed(f"The pack of {name} could not be built: {pack['reason']}.", "pack_failed")
            time.sleep(_POLL_S)
            pack = client.get(f"/v1/packs/{pack['id']}")


def show_pack(pack: Mapping[str, Any], name: str) -> None:
    took = f", read in {pack['build_s']:.1f} s" if pack["build_s"] else ""
    typer.echo(f"{name}: {pack['tokens']} tokens, {pack['bytes'] / 1e6:.1f} MB{took}; {pack['state']}.")
    for problem in ("disk_problem", "pin_problem"):
        if pack[problem]:
            typer.echo(f"readahead: {pack[problem]}", err=True)
    typer.echo(f'Ask with `readahead ask {name} "…" --route cag`.')


def show_estimate(estimate: Mapping[str, Any]) -> None:
    """Of a pack that fits; one that does not is refused with the same numbers."""
    seconds = "the time isn't measured yet" if estimate["build_s"] is None else f"about {estimate['build_s']:.1f} s"
    share = f"{estimate['tokens']} of the window's {estimate['window']} tokens"
    typer.echo(f"It fits: {share}, {estimate['bytes'] / 1e6:.1f} MB, {seconds}. Nothing was built.")
    if estimate["break_even_questions"] is not None:
        typer.echo(f"It has paid for itself after {estimate['break_even_questions']} questions.")
