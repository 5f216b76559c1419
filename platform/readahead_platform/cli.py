"""The `readahead` command. Heavy imports wait inside the commands, so that `--help` answers at once."""

from __future__ import annotations

import io
import logging
import os
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
    mcp,
    models,
    serve,
    up,
    version,
)
from readahead_platform.commands.output import examples, print_error
from readahead_platform.errors import CommandFailed, PlatformError
from readahead_retrieval.errors import RetrievalError
from readahead_serving.errors import ServingError

app = typer.Typer(
    name="readahead",
    help="A knowledge-agent server that has already read your documents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("up", epilog=examples("up", "up --port 9000 --no-samples"))(up.up)
app.command("serve", epilog=examples("serve --model smollm2-135m-instruct --port 8001"))(serve.serve)
app.command("ask", epilog=examples('ask samples "What torque do the cover screws need?"'))(ask.ask)
app.add_typer(knowledge_bases.app, name="kb")
app.add_typer(jobs.app, name="jobs")
app.add_typer(keys.app, name="keys")
app.add_typer(models.app, name="models")
app.command("mcp", epilog=examples("mcp --stdio"))(mcp.mcp)
app.command("bench", epilog=examples("bench list", "bench chat --concurrency 1,4,16"))(bench.bench)
app.command("eval", epilog=examples("eval samples sample_docs/questions.jsonl --search-only"))(evaluate.evaluate)
app.command("config", epilog=examples("config --json"))(config.config)
app.command("doctor", epilog=examples("doctor"))(doctor.doctor)
app.command("version")(version.version)


def main() -> None:
    """Runs a command. What a user can mend is one line and exit code 1; wrong use is exit code 2."""
    as_json = "--json" in sys.argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a document's words still gets the rest
    unreadable = next((argument for argument in sys.argv[1:] if not _is_text(argument)), None)
    if unreadable is not None:
        shown = os.fsencode(unreadable).decode("utf-8", "replace")
        print_error(CommandFailed(f"The argument {shown!r} is not UTF-8.", "not_utf8"), as_json=as_json)
        sys.exit(2)
    try:
        app()
    except (PlatformError, ServingError, RetrievalError, AgentError) as error:
        print_error(error, as_json=as_json)
        sys.exit(1)
    except OSError as error:  # the disk, its rights, its room: what commands do not name themselves
        logging.getLogger(__name__).debug("The command failed", exc_info=True)
        told = CommandFailed(f"{error.filename or 'The system'}: {error.strerror or error}.", "os_error")
        print_error(told, as_json=as_json)
        sys.exit(1)


def _is_text(argument: str) -> bool:
    """A file's name may be any bytes; everything else is sent as text."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return os.path.lexists(argument)
    return True


if __name__ == "__main__":
    main()
