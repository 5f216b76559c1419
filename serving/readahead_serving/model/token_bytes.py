"""What bytes a token stands for, in the two ways that vocabularies spell them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from readahead_serving.errors import ModelLoadError

SPACE = "▁"
"""SentencePiece's spelling of a space (U+2581)."""
_ONE_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def token_reader(tokenizer_json: str) -> Callable[[str], bytes]:
    """How this tokenizer's tokens are read.

    Raises:
        ModelLoadError: Its tokens stand for no exact bytes (WordPiece and its like).
    """
    kinds = set(_kinds(json.loads(tokenizer_json).get("decoder")))
    if "ByteLevel" in kinds:
        return byte_level_bytes
    if kinds & {"ByteFallback", "Metaspace"}:
        return sentencepiece_bytes
    raise ModelLoadError("The tokenizer is neither a byte-level nor a SentencePiece one, the kinds read here.")


def byte_level_bytes(token: str) -> bytes:
    """GPT-2's way: each character stands for a byte."""
    try:
        return bytes(_BYTES[character] for character in token)
    except KeyError:  # a token added beside the alphabet
        return token.encode()


def sentencepiece_bytes(token: str) -> bytes:
    """SentencePiece's way: text with spaces marked, and "<0xE2>" for bytes of characters that have no token."""
    if match := _ONE_BYTE.fullmatch(token):
        return bytes([int(match[1], 16)])
    return token.replace(SPACE, " ").encode()


def without_prefix_space(tokenizer_json: str) -> str | None:
    """The tokenizer for text that goes on after a special token, where that differs; else None.

    SentencePiece puts a space before the first word. Some models want it at the very beginning of a prompt only
    (`prepend_scheme` "first"), others after each special token too, which needs nothing here.
    """
    whole = json.loads(tokenizer_json)
    steps = [step for step in _steps(whole.get("pre_tokenizer")) if step.get("prepend_scheme") == "first"]
    for step in steps:
        step["prepend_scheme"] = "never"
    return json.dumps(whole, ensure_ascii=False) if steps else None


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """A component and, if it is a sequence, its parts."""
    if isinstance(part, dict):
        yield part
        for key in ("decoders", "pretokenizers"):
            for inner in part.get(key) or ():
                yield from _steps(inner)


def _kinds(decoder: Any) -> Iterator[str]:
    return (str(step.get("type")) for step in _steps(decoder))


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes (Radford et al. 2019, `bytes_to_unicode`)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTES = _byte_alphabet()
