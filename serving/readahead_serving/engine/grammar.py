"""Constrained decoding: completions that satisfy a JSON schema, a regular expression or a grammar, by llguidance."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from numpy.typing import NDArray

from readahead_serving.engine.request import SamplingParams
from readahead_serving.errors import RequestRefused

MAX_STRUCTURE_BYTES = 256 << 10
"""Size of a schema, an expression or a grammar; what is compiled of it is bounded too."""
_STRUCTURES = {
    "json_schema": ("JSON schema", "response_format", "invalid_json_schema"),
    "regex": ("regular expression", "structured_outputs.regex", "invalid_regex"),
    "grammar": ("grammar", "structured_outputs.grammar", "invalid_grammar"),
}
"""How each kind is called, which parameter it mostly comes from, and the code of its refusal."""


def _limits() -> Any:
    return LLParserLimits(max_grammar_size=100_000, verbose_errors=False)


@cache
def _byte_tokenizer() -> Any:
    # It knows no special tokens, so a grammar that names one is refused here and cannot fail in the engine.
    return LLTokenizer("byte")


def structure_of(sampling: SamplingParams) -> tuple[str, str] | None:
    """The kind and text of what the completion must satisfy; None if it is free."""
    return next(((kind, text) for kind in _STRUCTURES if (text := getattr(sampling, kind)) is not None), None)


def _compiled(kind: str, text: str) -> str:
    if kind == "regex":
        return str(LLMatcher.grammar_from_regex(text))
    if kind == "grammar":
        return str(LLMatcher.grammar_from_lark(text))
    # Compact JSON: with free white space small models write blanks until max_tokens.
    return str(LLMatcher.grammar_from_json_schema(text, overrides={"whitespace_flexible": False}))


def check_structure(sampling: SamplingParams) -> None:
    """Refuses a schema, an expression or a grammar that the engine could not follow.

    Takes milliseconds for an ordinary one and a second for an extreme one: call it off the event loop.

    Raises:
        RequestRefused: It is malformed, too large, or uses what cannot be enforced.
    """
    structure = structure_of(sampling)
    if structure is None:
        return
    kind, text = structure
    if problem := _problem(kind, text):
        name, param, code = _STRUCTURES[kind]
        raise RequestRefused(f"The {name} cannot be used: {problem[:500]}", param=param, code=code)


def _problem(kind: str, text: str) -> str:
    try:
        if len(text.encode()) > MAX_STRUCTURE_BYTES:
            return f"it is over {MAX_STRUCTURE_BYTES} bytes"
        return str(LLMatcher.validate_grammar(_compiled(kind, text), _byte_tokenizer(), limits=_limits()))
    except ValueError as error:  # lone surrogates, which no UTF-8 holds, are one
        return str(error)


class Constraint:
    """What one completion may still say."""

    def __init__(self, matcher: Any, vocab_size: int) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._bits = np.empty((1, -(-vocab_size // 32)), np.int32)

    def allowed(self) -> NDArray[np.bool_]:
        """Which tokens may come next, (vocab,)."""
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        return np.unpackbits(self._bits.view(np.uint8)[0], count=self._vocab_size, bitorder="little").view(np.bool_)

    def accept(self, token_id: int, *, with_forced: bool = True) -> list[int]:
        """Moves on by a token that was allowed.

        Returns:
            The tokens that must follow whatever the model thinks; they are accepted already. None `with_forced` false:
            then they come one by one, each the only one allowed, or one of several ways to spell the only text allowed.
        """
        self._matcher.consume_token(token_id)
        forced = list(self._matcher.compute_ff_tokens()) if with_forced else []
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

    def compile(self, sampling: SamplingParams) -> Constraint | None:
        """Compiles what `check_structure` has passed; otherwise the constraint's `error` is set. None without any."""
        structure = structure_of(sampling)
        if structure is None:
            return None
        return Constraint(LLMatcher(self._tokenizer, _compiled(*structure), limits=_limits()), self._vocab_size)
