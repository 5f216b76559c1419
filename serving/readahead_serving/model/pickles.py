"""Weights that are published as pickles, which run whatever code was put into them: they are refused."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from readahead_serving.errors import ModelLoadError


def refuse_pickles(where: str, names: Iterable[str]) -> None:
    """Says what to do about a model that has .bin files in place of safetensors.

    Args:
        where: The model's folder or hub id.
        names: Its files.

    Raises:
        ModelLoadError: There are .bin files and no safetensors.
    """
    suffixes = {Path(name).suffix for name in names}
    if ".bin" in suffixes and ".safetensors" not in suffixes:
        raise ModelLoadError(
            f"{where} publishes its weights as pickles (.bin), which are never read here, for they can run any code. "
            "Convert them to safetensors where you trust them: transformers, "
            f"AutoModelForCausalLM.from_pretrained({where!r}).save_pretrained(FOLDER), and the tokenizer likewise; "
            "then serve FOLDER."
        )
