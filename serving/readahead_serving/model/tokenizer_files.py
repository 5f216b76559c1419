"""Builds tokenizers out of what models ship: a folder's JSON files or a GGUF file's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.chat_template import ChatTemplate
from readahead_serving.model.config import ModelConfig
from readahead_serving.model.gguf_file import GGUFFile
from readahead_serving.model.gpt2_files import gpt2_tokenizer_json, has_gpt2_files
from readahead_serving.model.json_file import read_json
from readahead_serving.model.tokenizer import Tokenizer

_CONTROL, _USER_DEFINED = 3, 4
_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _byte_level(*, use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _pipeline(
    *steps: dict[str, Any], normalizer: dict[str, Any] | None = None, ignore_merges: bool = False
) -> dict[str, Any]:
    return {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(steps)},
        "normalizer": normalizer,
        "ignore_merges": ignore_merges,
    }


_PIPELINES = {
    "smollm": _pipeline({"type": "Digits", "individual_digits": True}, _byte_level(use_regex=True)),
    "qwen2": _pipeline(_split(_WORDS + r"\p{N}" + _REST), _byte_level(use_regex=False), normalizer={"type": "NFC"}),
    "llama-bpe": _pipeline(_split(_WORDS + r"\p{N}{1,3}" + _REST), _byte_level(use_regex=False), ignore_merges=True),
}
"""How text is cut before merging, by `tokenizer.ggml.pre`: the names and rules are llama.cpp's."""


def tokenizer_from_folder(folder: Path, eos_ids: Sequence[int]) -> Tokenizer:
    """Reads tokenizer.json (or GPT-2's two files in its place), tokenizer_config.json and chat_template.jinja.

    Raises:
        ModelLoadError: tokenizer.json is missing or not a byte-level tokenizer.
    """
    named = _settings(folder)
    path = folder / "tokenizer.json"
    is_old = not path.exists() and has_gpt2_files(folder)
    text = gpt2_tokenizer_json(folder, named) if is_old else _read(path)
    template_file = folder / "chat_template.jinja"
    source = template_file.read_text("utf-8") if template_file.exists() else _default_template(named)
    tokens = {key: _content(named[key]) for key in _NAMED_TOKENS if named.get(key)}
    template = ChatTemplate(source, tokens) if source else None
    return Tokenizer(text, eos_ids=eos_ids, template=template)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelLoadError(f"Cannot read the tokenizer {path}: {error}.") from error


def _settings(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json, with what special_tokens_map.json names beside it."""
    files = (folder / "special_tokens_map.json", folder / "tokenizer_config.json")
    return {key: value for file in files if file.exists() for key, value in read_json(file).items()}


def tokenizer_from_gguf(file: GGUFFile, config: ModelConfig) -> Tokenizer:
    """Rebuilds a tokenizer.json from GGUF metadata.

    Raises:
        ModelLoadError: The tokenizer is missing or of a kind that is not read.
    """
    metadata = file.metadata
    kind, cut = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if kind != "gpt2" or cut not in _PIPELINES:
        raise ModelLoadError(
            f"{file.path}: the tokenizer is {kind!r} with pre-tokenizer {cut!r}; "
            f"read here are 'gpt2' with {', '.join(_PIPELINES)}."
        )
    tokens: list[str] = metadata.get("tokenizer.ggml.tokens", [])
    source = metadata.get("tokenizer.chat_template")
    text = json.dumps(_tokenizer_json(metadata, tokens, _PIPELINES[cut]), ensure_ascii=False)
    named = {
        f"{name}_token": tokens[number]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if isinstance(number := metadata.get(f"tokenizer.ggml.{key}_token_id"), int) and 0 <= number < len(tokens)
    }
    return Tokenizer(text, eos_ids=config.eos_token_ids, template=ChatTemplate(source, named) if source else None)


def _tokenizer_json(metadata: Mapping[str, Any], tokens: list[str], pipeline: dict[str, Any]) -> dict[str, Any]:
    kinds = metadata.get("tokenizer.ggml.token_type", [])
    added = [
        _added_token(number, tokens[number], special=kind == _CONTROL)
        for number, kind in enumerate(kinds[: len(tokens)])
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": pipeline["normalizer"],
        "pre_tokenizer": pipeline["pre_tokenizer"],
        "post_processor": _post_processor(metadata, tokens),
        "decoder": _byte_level(use_regex=True),
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in metadata.get("tokenizer.ggml.merges", [])],
            "ignore_merges": pipeline["ignore_merges"],
        },
    }


def _added_token(number: int, content: str, *, special: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, "special": special, **flags}


def _post_processor(metadata: Mapping[str, Any], tokens: list[str]) -> dict[str, Any] | None:
    """Adds BOS in front where the file asks for it."""
    bos = metadata.get("tokenizer.ggml.bos_token_id")
    if not metadata.get("tokenizer.ggml.add_bos_token") or not isinstance(bos, int):
        return None
    single = [{"SpecialToken": {"id": tokens[bos], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {tokens[bos]: {"id": tokens[bos], "ids": [bos], "tokens": [tokens[bos]]}},
    }


def _default_template(settings: Mapping[str, object]) -> str | None:
    """The `chat_template` of tokenizer_config.json: one text, or several by name with one called default."""
    found = settings.get("chat_template")
    if isinstance(found, list):
        found = next((one["template"] for one in found if one.get("name") == "default"), None)
    return found if isinstance(found, str) else None


def _content(token: object) -> str:
    return str(token["content"]) if isinstance(token, dict) else str(token)
