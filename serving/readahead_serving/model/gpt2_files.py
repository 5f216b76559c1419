"""A tokenizer.json out of GPT-2's two files, vocab.json and merges.txt, which is all that some old models publish.

Such are GPT-2 and OPT: byte-level BPE, cut by GPT-2's own rule (Radford et al. 2019).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.json_file import read_json

VOCABULARY, MERGES = "vocab.json", "merges.txt"
_CLASSES = ("GPT2Tokenizer", "GPT2TokenizerFast", None)
_NAMED = ("bos_token", "eos_token", "unk_token", "pad_token")


def has_gpt2_files(folder: Path) -> bool:
    return (folder / VOCABULARY).exists() and (folder / MERGES).exists()


def gpt2_tokenizer_json(folder: Path, settings: Mapping[str, Any]) -> str:
    """Builds the tokenizer.json.

    Args:
        folder: The model's.
        settings: Its tokenizer_config.json.

    Raises:
        ModelLoadError: A file is damaged, or the tokenizer cuts text by another rule than GPT-2's.
    """
    kind = settings.get("tokenizer_class")
    if kind not in _CLASSES:
        raise ModelLoadError(
            f"{folder} has no tokenizer.json, and a {kind} can't be built from {VOCABULARY} and {MERGES}: make one "
            "with transformers, AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)."
        )
    vocabulary = read_json(folder / VOCABULARY)
    added = _added(folder, settings, vocabulary)
    byte_level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
    pre_tokenizer = {**byte_level, "add_prefix_space": bool(settings.get("add_prefix_space", False))}
    bos = _content(settings.get("bos_token")) if settings.get("add_bos_token") else None
    built = {
        "version": "1.0",
        "added_tokens": [_added_token(content, number) for content, number in added.items()],
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": _leading(bos, added[bos]) if bos in added else None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": list(_merges(folder / MERGES))},
    }
    return json.dumps(built, ensure_ascii=False)


def _added(folder: Path, settings: Mapping[str, Any], vocabulary: Mapping[str, Any]) -> dict[str, int]:
    """The special tokens with their ids, in order of ids."""
    beside = folder / "added_tokens.json"
    numbers: dict[str, int] = {**vocabulary, **(read_json(beside) if beside.exists() else {})}
    named = (_content(settings.get(name)) for name in _NAMED)
    found = {content: numbers[content] for content in named if content is not None and content in numbers}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _content(token: object) -> str | None:
    if isinstance(token, dict):
        return str(token["content"])
    return token if isinstance(token, str) else None


def _added_token(content: str, number: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, "special": True, **flags}


def _leading(token: str, number: int) -> dict[str, Any]:
    """Puts a token in front of each text."""
    single = [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }


def _merges(path: Path) -> Iterator[list[str]]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelLoadError(f"Cannot read {path}: {error}.") from error
    for line in lines:
        if line and not line.startswith("#version"):
            yield line.split(" ", 1)
