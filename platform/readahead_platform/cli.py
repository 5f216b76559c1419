"""The `readahead` command. Heavy imports wait inside the commands, so that `--help` answers at once."""

from __future__ import annotations

import sys

import typer

from readahead_agents.errors import AgentError
from readahead_platform.commands import (
    ask,
    bench,
    config,
    doctor,
    evaluate,
    jobs,
    keys,
    knowledge_bases,
    models,
    serve,
    up,
    version,
)
from readahead_platform.commands.output import print_error
from readahead_platform.errors import PlatformError
from readahead_retrieval.errors import RetrievalError
from readahead_serving.errors import ServingError

app = typer.Typer(
    name="readahead",
    help="A knowledge-agent server that has already read your documents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("up")(up.up)
app.command("serve")(serve.serve)
app.command("ask")(ask.ask)
app.add_typer(knowledge_bases.app, name="kb")
app.add_typer(jobs.app, name="jobs")
app.add_typer(keys.app, name="keys")
app.add_typer(models.app, name="models")
app.command("bench")(bench.bench)
app.command("bench")(bench.bench)
app.command("eval")(evaluate.evaluate)
app.command("config")(config.config)
app.command("doctor")(doctor.doctor)
app.command("version")(version.version)


def main() -> None:
    """Runs a command. What a user can mend is one line and exit code 1; wrong use is exit code 2."""
    try:
        app()
    except (PlatformError, ServingError, RetrievalError, AgentError) as error:
        print_error(error, as_json="--json" in sys.argv)
        sys.exit(1)


if __name__ == "__main__":
    main()
