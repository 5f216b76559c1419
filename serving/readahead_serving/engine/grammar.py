"""Constrained decoding: completions that satisfy a JSON schema, through llguidance."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from torch import Tensor

from readahead_serving.errors import RequestRefused

MAX_SCHEMA_BYTES = 256 << 10
"""A schema's size; the grammar made of it is bounded too."""


def _limits() -> Any:
    return LLParserLimits(max_grammar_size=100_000, verbose_errors=False)


def _grammar(schema: str) -> str:
    # Compact JSON: with free white space small models write blanks until max_tokens.
    return str(LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False}))


def check_json_schema(schema: str) -> None:
    """Refuses a schema that the engine could not follow.

    Takes milliseconds for an ordinary schema and a second for an extreme one: call it off the event loop.

    Raises:
        RequestRefused: It is no JSON, no schema, too large, or uses what cannot be enforced.
    """
    if len(schema.encode()) > MAX_SCHEMA_BYTES:
        raise _refusal(f"it is over {MAX_SCHEMA_BYTES} bytes")
    try:
        problem = LLMatcher.validate_grammar(_grammar(schema), limits=_limits())
    except ValueError as error:
        raise _refusal(str(error)) from error
    if problem:
        raise _refusal(problem)


def _refusal(problem: str) -> RequestRefused:
    return RequestRefused(
        f"The JSON schema cannot be used: {problem[:500]}", param="response_format", code="invalid_json_schema"
    )


class Constraint:
    """What one completion may still say."""

    def __init__(self, matcher: Any, vocab_size: int) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._bits = np.empty((1, -(-vocab_size // 32)), np.int32)

    def mask(self, logits: Tensor) -> None:
        """Sets the logits, (vocab,), of all tokens that may not come next to minus infinity, in place."""
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        allowed = np.unpackbits(self._bits.view(np.uint8)[0], count=self._vocab_size, bitorder="little")
        logits.masked_fill_(torch.from_numpy(allowed) == 0, float("-inf"))

    def accept(self, token_id: int) -> list[int]:
        """Moves on by a token that the mask allowed.

        Returns:
            The tokens that must follow whatever the model thinks; they are accepted already.
        """
        self._matcher.consume_token(token_id)
        forced = list(self._matcher.compute_ff_tokens())
        if forced:
            self._matcher.consume_tokens(forced)
        return forced

    @property
    def is_complete(self) -> bool:
        """Whether nothing may follow."""
        return bool(self._matcher.is_stopped())

    @property
    def error(self) -> str | None:
        """Why the grammar cannot go on; the matcher never raises."""
        return str(self._matcher.get_error()) if self._matcher.is_error() else None


class GrammarCompiler:
    """Makes constraints for one model's tokenizer.

    Args:
        tokenizer_json: The text of tokenizer.json.
        vocab_size: The length of the model's logits, which may exceed the tokenizer's vocabulary.
        eos_ids: What ends a completion.
    """

    def __init__(self, tokenizer_json: str, vocab_size: int, eos_ids: list[int]) -> None:
        self._vocab_size = vocab_size
        self._tokenizer = LLTokenizer(tokenizer_json, n_vocab=vocab_size, eos_token=eos_ids)

    def compile(self, schema: str) -> Constraint:
        """Compiles a schema that `check_json_schema` has passed; otherwise the constraint's `error` is set."""
        return Constraint(LLMatcher(self._tokenizer, _grammar(schema), limits=_limits()), self._vocab_size)
