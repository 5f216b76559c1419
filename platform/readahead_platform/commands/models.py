"""`readahead models …`: models on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from readahead_platform.commands.output import AsJson, examples, print_json, print_table
from readahead_platform.settings import Settings, read_settings

if TYPE_CHECKING:
    from readahead_serving.model.progress import DownloadProgress
    from readahead_serving.model.store import ModelStore

app = typer.Typer(help="Models on this machine.", no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List downloaded models."""
    models = _store(read_settings().settings).list()
    if as_json:
        print_json({"models": [{"name": m.name, "path": str(m.path), "bytes": m.nbytes} for m in models]})
    else:
        print_table(("NAME", "SIZE", "PATH"), [(m.name, f"{m.nbytes / 1e6:.0f} MB", m.path) for m in models])


@app.command(epilog=examples("models pull", "models pull smollm2-135m-instruct"))
def pull(
    names: Annotated[list[str] | None, typer.Argument(help="Catalogue names or hub ids; none: the two in use.")] = None,
    as_json: AsJson = False,
) -> None:
    """Download models and check them by hash. What is here already is not fetched again."""
    settings = read_settings().settings
    paths = ensure_models(settings, names or models_in_use(settings), as_json=as_json)
    if as_json:
        print_json({"models": [str(path) for path in paths]})


@app.command()
def remove(name: Annotated[str, typer.Argument(help="The model's name.")], as_json: AsJson = False) -> None:
    """Delete a downloaded model."""
    _store(read_settings().settings).remove(name)
    if as_json:
        print_json({"removed": name})
    else:
        typer.echo(f"Removed {name}.")


def models_in_use(settings: Settings) -> list[str]:
    """The language model and the embedding model of the settings."""
    return [name for name in (settings.serving.model, settings.serving.embedding_model) if name]


def ensure_models(settings: Settings, names: Sequence[str], *, as_json: bool) -> list[Path]:
    """Paths of the models, fetched with progress where they are missing. Blocks.

    Raises:
        ModelLoadError: One can be had from nowhere, or what arrived was not what was pinned.
    """
    from readahead_platform.commands.progress import progress_view

    store = _store(settings)
    with progress_view(as_json=as_json) as view:

        def show(report: DownloadProgress) -> None:
            view.update(report.model, report.stage, report.done_bytes, report.total_bytes)

        return [store.ensure(name, show) for name in names]


def _store(settings: Settings) -> ModelStore:
    from readahead_serving.model.store import ModelStore

    return ModelStore(settings.serving.models_dir)
