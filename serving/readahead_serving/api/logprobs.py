"""Log probabilities in OpenAI's two shapes, the chat's and the text completion's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from readahead_serving.engine.request import TokenLogprobs

_LEAST = -9999.0
"""Stands for minus infinity, which JSON can't spell: OpenAI's own number for it."""

TokenBytes = Callable[[int], bytes]


def chat_logprobs(tokens: Sequence[TokenLogprobs], token_bytes: TokenBytes) -> dict[str, Any]:
    """`choices[].logprobs` of a chat completion."""

    def entry(token_id: int, logprob: float) -> dict[str, Any]:
        raw = token_bytes(token_id)
        return {"token": raw.decode("utf-8", "replace"), "logprob": max(logprob, _LEAST), "bytes": list(raw)}

    content = [
        {**entry(token.token_id, token.logprob), "top_logprobs": [entry(*pair) for pair in token.top]}
        for token in tokens
    ]
    return {"content": content, "refusal": None}


class CompletionLogprobs:
    """`choices[].logprobs` of a text completion, whose offsets go on from chunk to chunk.

    Args:
        token_bytes: The exact bytes of a token.
        first: The first token of an echoed prompt, which nothing comes before: it has no log probability.
    """

    def __init__(self, token_bytes: TokenBytes, first: int | None = None) -> None:
        self._token_bytes = token_bytes
        self._first = first
        self._offset = 0

    def take(self, tokens: Sequence[TokenLogprobs]) -> dict[str, Any]:
        """The object for the next tokens."""
        ids = [token.token_id for token in tokens]
        logprobs: list[float | None] = [max(token.logprob, _LEAST) for token in tokens]
        tops: list[dict[str, float] | None] = [self._top(token) for token in tokens]
        if self._first is not None:
            ids, logprobs, tops = [self._first, *ids], [None, *logprobs], [None, *tops]
            self._first = None
        return {
            "tokens": [self._name(token_id) for token_id in ids],
            "token_logprobs": logprobs,
            "top_logprobs": tops,
            "text_offset": [self._place(token_id) for token_id in ids],
        }

    def _place(self, token_id: int) -> int:
        """Where the next token's text begins."""
        offset = self._offset
        # bytes that continue a code point add no character
        self._offset += sum((byte & 0xC0) != 0x80 for byte in self._token_bytes(token_id))
        return offset

    def _top(self, token: TokenLogprobs) -> dict[str, float]:
        """OpenAI's map holds the chosen token too, even if it is none of the likeliest."""
        listed = [*token.top, (token.token_id, token.logprob)]
        return {self._name(token_id): max(logprob, _LEAST) for token_id, logprob in listed}

    def _name(self, token_id: int) -> str:
        raw = self._token_bytes(token_id)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
