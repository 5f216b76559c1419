"""`readahead doctor`: whether this machine has what the service needs."""

from __future__ import annotations

from dataclasses import asdict

import typer

from readahead_platform.commands.output import AsJson, print_json
from readahead_platform.settings import read_settings


def doctor(as_json: AsJson = False) -> None:
    """Check Python, models, ports, disk and optional programs."""
    from readahead_platform.health_checks import run_checks

    checks = run_checks(read_settings().settings)
    failed = [check for check in checks if check.required and not check.ok]
    if as_json:
        print_json({"ok": not failed, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            mark = "ok  " if check.ok else "FAIL" if check.required else "--  "
            typer.echo(f"{mark}  {check.name}: {check.detail}")
    if failed:
        raise typer.Exit(1)
