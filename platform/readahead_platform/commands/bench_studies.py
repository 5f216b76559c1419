"""`readahead bench peers|regress|curves|embed`: studies of our LLM server, each of several workloads."""

from __future__ import annotations

from pathlib import Path

import typer

from readahead_platform.settings import Settings

STUDIES = {
    "peers": "our server beside vLLM's CPU build and llama.cpp, installed apart from us, with the same loads by turns; "
    "one table with ratios",
    "regress": "ratios and counts that a busy machine does not change, held against the bounds in "
    "bench/regress/thresholds.toml; exit code 1 where one is broken",
    "curves": "how cost grows with users, new tokens, pack length, distinct packs and prompt length, and memory with "
    "packs, users and context; CSV, JSON and plots",
    "embed": "passages and one question embedded as the service computes, in process and over HTTP, beside "
    "sentence-transformers where it is installed; cosines to float32",
}


def run_study(study: str, settings: Settings, *, folder: Path | None, as_json: bool) -> None:
    """Runs one of the studies and prints it.

    Args:
        study: A key of STUDIES.
        settings: Ours.
        folder: Where peers are installed, or where plots are written; by default a cache and `docs/images`.
        as_json: Print JSON.
    """
    from readahead_platform.commands.models import ensure_models

    name = settings.serving.embedding_model if study == "embed" else settings.serving.model
    (model,) = ensure_models(settings, [name], as_json=as_json)
    if study == "peers":
        from readahead_serving.bench.peers.command import PeersOptions, run_peers

        options = PeersOptions() if folder is None else PeersOptions(folder=folder)
        run_peers(options, settings.serving, model, as_json=as_json)
    elif study == "regress":
        from readahead_serving.bench.regress.command import run_regress

        name = settings.serving.embedding_model
        embedding_model = ensure_models(settings, [name], as_json=as_json)[0] if name else None
        if not run_regress(settings.serving, embedding_model, as_json=as_json):
            raise typer.Exit(1)
    elif study == "embed":
        from readahead_serving.bench.embed.command import run_embed

        run_embed(settings.serving, model, as_json=as_json)
    else:
        from readahead_serving.bench.curves.command import run_curves

        run_curves(settings.serving, folder or Path("docs/images"), as_json=as_json)
