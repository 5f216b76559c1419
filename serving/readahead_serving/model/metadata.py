"""What a model says of itself, and its tokenizer: read without PyTorch, because the API process has no need of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from readahead_serving.model.config import ModelConfig
from readahead_serving.model.families import config_from_gguf, config_from_hf
from readahead_serving.model.fields import token_ids
from readahead_serving.model.gguf_file import GGUFFile
from readahead_serving.model.json_file import read_json
from readahead_serving.model.tokenizer import Tokenizer
from readahead_serving.model.tokenizer_files import tokenizer_from_folder, tokenizer_from_gguf

GGUF_SUFFIX = ".gguf"


def load_config(path: Path) -> ModelConfig:
    """Reads a model's shape without its weights.

    Raises:
        ModelLoadError: As `load_model`.
    """
    if path.suffix == GGUF_SUFFIX:
        file = GGUFFile(path)
        return config_from_gguf(file.metadata, file.names(), str(path))
    config = config_from_hf(read_json(path / "config.json"), str(path / "config.json"))
    return replace(config, eos_token_ids=read_eos_ids(path))


def read_eos_ids(folder: Path) -> tuple[int, ...]:
    """What ends a completion of a folder's model, of any family.

    generation_config.json says it where there is one: chat models end turns by it.

    Raises:
        ModelLoadError: A file is missing or not JSON.
    """
    generation = folder / "generation_config.json"
    said = token_ids(read_json(generation).get("eos_token_id")) if generation.exists() else ()
    return said or token_ids(read_json(folder / "config.json").get("eos_token_id"))


def load_tokenizer(path: Path) -> Tokenizer:
    """Loads the tokenizer that belongs to a model.

    Raises:
        ModelLoadError: It is missing, damaged or of a kind that is not read.
    """
    if path.suffix == GGUF_SUFFIX:
        file = GGUFFile(path)
        return tokenizer_from_gguf(file, config_from_gguf(file.metadata, file.names(), str(path)))
    return tokenizer_from_folder(path, read_eos_ids(path))
