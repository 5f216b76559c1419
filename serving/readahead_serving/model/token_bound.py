"""How few tokens a text can have, told from its length alone: what is hopeless is refused before it is tokenised.

Tokenising a megabyte takes a second; no token stands for more bytes than the vocabulary's longest. Where a tokenizer
may drop or fold text on the way (white space, unknown characters), lengths prove nothing and the bound is 0.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from readahead_serving.model.token_bytes import token_reader

_NFC_SHRINKS = 3
"""Bytes that canonical composition makes one of at most (UAX #15): U+1FEF becomes a backtick."""
_KEEPING_PRE_TOKENIZERS = ("Sequence", "ByteLevel", "Digits", "Metaspace")


class TokenBound:
    """A lower bound of the tokens of any text.

    Args:
        tokenizer_json: A tokenizer.json.
    """

    def __init__(self, tokenizer_json: str) -> None:
        parsed = json.loads(tokenizer_json)
        self._lost, shrinks = b"", _shrinks(parsed)
        if shrinks:
            read = token_reader(tokenizer_json)
            vocabulary = {token: read(token) for token in parsed["model"]["vocab"]}
            self._lost = _lost_bytes(vocabulary.values())
            if self._lost and (shrinks > 1 or parsed["model"].get("unk_token")):
                shrinks = 0
            added = (token["content"].encode() for token in parsed.get("added_tokens") or ())
            self._longest = shrinks * max(map(len, (*vocabulary.values(), *added)))
        self._is_known = shrinks > 0

    def least_tokens(self, text: str) -> int:
        """Tokens that `text` has at least; 0 where nothing can be told."""
        if not self._is_known:
            return 0
        raw = text.encode("utf-8", "replace")
        kept = len(raw.translate(None, self._lost) if self._lost else raw)
        return -(-kept // self._longest)


def _shrinks(parsed: dict[str, Any]) -> int:
    """How many bytes of text may become one before merging; 0 if any number."""
    swallows = any(token.get("lstrip") or token.get("rstrip") for token in parsed.get("added_tokens") or ())
    pre_tokenizers = _steps(parsed.get("pre_tokenizer"))
    if parsed["model"].get("type") != "BPE" or swallows or not all(map(_keeps_text, pre_tokenizers)):
        return 0
    factors = [_shrinks_by(step) for step in _steps(parsed.get("normalizer"))]
    return 0 if 0 in factors else max(factors, default=1)


def _keeps_text(pre_tokenizer: dict[str, Any]) -> bool:
    if pre_tokenizer["type"] == "Split":
        return str(pre_tokenizer["behavior"]) != "Removed"
    return pre_tokenizer["type"] in _KEEPING_PRE_TOKENIZERS


def _shrinks_by(normalizer: dict[str, Any]) -> int:
    match normalizer:
        case {"type": "Sequence" | "Prepend"}:
            return 1
        case {"type": "NFC"}:
            return _NFC_SHRINKS
        case {"type": "Replace", "pattern": {"String": found}, "content": content}:
            return 1 if len(content) >= len(found) else 0
        case _:
            return 0


def _steps(part: Any) -> list[dict[str, Any]]:
    """A component with its parts, if it is a sequence."""
    if not isinstance(part, dict):
        return []
    inner = (part.get("normalizers") or []) + (part.get("pretokenizers") or [])
    return [part, *(step for one in inner for step in _steps(one))]


def _lost_bytes(vocabulary: Collection[bytes]) -> bytes:
    """Bytes that no token stands for: the tokenizer drops them without a word."""
    return bytes(set(range(256)) - {token[0] for token in vocabulary if len(token) == 1})
