"""Constrained decoding: completions that satisfy a JSON schema, a regular expression or a grammar, by llguidance."""

from __future__ import annotations

import json
from collections import OrderedDict
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from numpy.typing import NDArray
from tokenizers import Tokenizer

from readahead_serving.engine.request import SamplingParams
from readahead_serving.errors import RequestRefused

MAX_STRUCTURE_BYTES = 256 << 10
"""Size of a schema, an expression or a grammar; what is compiled of it is bounded too."""
CACHED_BYTES = 1 << 20
"""Text of the structures that are kept compiled. Compiled they take up to a hundred times that."""
_PROBED_TOKENS = 16
"""First bytes of a completion that are tried out when a structure is checked."""
_EXPLAINED = {
    "NoExtensionBias": "nothing satisfies it, or only a text without end",
    "Too many items": "it nests without end, or leaves too much open at once",
    "Current row has": "it leaves too much open at once: make properties required, or give fewer alternatives",
    "Failed to generate regex for": "a `minimum` or `maximum` is out of range: give bounds of at most 17 digits",
    "number out of range": "it holds a number that is out of range",
}
"""What llguidance means by the errors that come of a structure's size or shape, or of its numbers."""
_STRUCTURES = {
    "json_schema": ("JSON schema", "response_format", "invalid_json_schema"),
    "regex": ("regular expression", "structured_outputs.regex", "invalid_regex"),
    "grammar": ("grammar", "structured_outputs.grammar", "invalid_grammar"),
}
"""How each kind is called, which parameter it mostly comes from, and the code of its refusal."""


class Structure(NamedTuple):
    """What a completion must satisfy."""

    kind: str
    """The field of `SamplingParams` that holds it."""
    text: str

    def refusal(self, problem: str) -> RequestRefused:
        """Says that it can't be followed, and why."""
        name, param, code = _STRUCTURES[self.kind]
        return RequestRefused(f"The {name} cannot be used: {problem[:500]}", param=param, code=code)


def _limits() -> Any:
    # 50,000 states of a lexer take 20 MB
    return LLParserLimits(max_grammar_size=100_000, max_lexer_states=50_000, verbose_errors=False)


@cache
def _byte_tokenizer() -> Any:
    # It knows no special tokens, so a grammar that names one is refused here and cannot fail in the engine.
    return LLTokenizer("byte")


def structure_of(sampling: SamplingParams) -> Structure | None:
    """What the completion must satisfy; None if it is free."""
    found = ((kind, text) for kind in _STRUCTURES if (text := getattr(sampling, kind)) is not None)
    return next((Structure(*one) for one in found), None)


def _compiled(structure: Structure) -> str:
    kind, text = structure
    if kind == "regex":
        return str(LLMatcher.grammar_from_regex(text))
    if kind == "grammar":
        return str(LLMatcher.grammar_from_lark(text))
    # Compact JSON: with free white space small models write blanks until max_tokens.
    return str(LLMatcher.grammar_from_json_schema(text, overrides={"whitespace_flexible": False}))


def find_problem(structure: Structure) -> str | None:
    """Why the engine could not follow a structure: it is malformed, too large, or uses what can't be enforced.

    The first bytes of a completion are tried out, because much is found only there: a schema without end, or one with
    more optional properties than the parser holds at once. Takes milliseconds for an ordinary structure, a second for a
    large one, and for a few (the intersection of thirty patterns) longer than anyone will wait: call it where it can be
    given up, which no thread can.
    """
    try:
        if len(structure.text.encode()) > MAX_STRUCTURE_BYTES:
            return f"it is over {MAX_STRUCTURE_BYTES} bytes"
        matcher = LLMatcher(_byte_tokenizer(), _compiled(structure), limits=_limits())
    except ValueError as error:  # lone surrogates, which no UTF-8 holds, are one
        return _explained(str(error))
    for _ in range(_PROBED_TOKENS):
        allowed = int.from_bytes(matcher.compute_bitmask(), "little")
        if matcher.is_stopped():
            break
        matcher.consume_token((allowed & -allowed).bit_length() - 1)
    return _error_of(matcher)


def _error_of(matcher: Any) -> str | None:
    """The matcher never raises."""
    if not matcher.is_error():
        return None
    return _explained(str(matcher.get_error()).removesuffix("<non-verbose/>").strip())


def _explained(error: str) -> str:
    return next((meaning for fragment, meaning in _EXPLAINED.items() if fragment in error), error)


def _with_an_end(tokenizer_json: str) -> tuple[str, list[int]]:
    """Adds an end of text, which the library needs, behind a vocabulary that has none: no text stands for it."""
    size = Tokenizer.from_str(tokenizer_json).get_vocab_size(with_added_tokens=True)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    end = {"id": size, "content": "<|no end of text|>", "special": True, **flags}
    parsed = json.loads(tokenizer_json)
    return json.dumps({**parsed, "added_tokens": [*(parsed.get("added_tokens") or ()), end]}), [size]


class Constraint:
    """What one completion may still say."""

    def __init__(self, matcher: Any, vocab_size: int, mask_size: int) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._bits = np.empty((1, -(-mask_size // 32)), np.int32)

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
        """Whether the completion satisfies the structure and nothing may follow."""
        return bool(self._matcher.is_stopped()) and self.error is None

    @property
    def error(self) -> str | None:
        """Why the grammar cannot go on. A matcher in error counts as stopped and allows the end of text alone."""
        return _error_of(self._matcher)


class GrammarCompiler:
    """Makes constraints for one model's tokenizer.

    Args:
        tokenizer_json: The text of tokenizer.json.
        vocab_size: The length of the model's logits, which may exceed the tokenizer's vocabulary.
        eos_ids: What ends a completion.
    """

    def __init__(self, tokenizer_json: str, vocab_size: int, eos_ids: list[int]) -> None:
        self._vocab_size = vocab_size
        if not eos_ids:
            tokenizer_json, eos_ids = _with_an_end(tokenizer_json)
        self._mask_size = max(vocab_size, 1 + max(eos_ids))
        self._tokenizer = LLTokenizer(tokenizer_json, n_vocab=self._mask_size, eos_token=eos_ids)
        self._compiled: OrderedDict[Structure, Any] = OrderedDict()
        self._compiled_bytes = 0

    def compile(self, sampling: SamplingParams) -> Constraint | None:
        """The constraint that a request asks for; None if it asks for none.

        A structure is compiled once and copied for each completion, which takes less than a millisecond. Not for use by
        two threads at once.

        Raises:
            RequestRefused: It can't be followed. `find_problem` would have said so.
        """
        structure = structure_of(sampling)
        if structure is None:
            return None
        if structure not in self._compiled:
            self._keep(structure, self._matcher(structure))
        self._compiled.move_to_end(structure)
        return Constraint(self._compiled[structure].deep_copy(), self._vocab_size, self._mask_size)

    def _matcher(self, structure: Structure) -> Any:
        try:
            matcher = LLMatcher(self._tokenizer, _compiled(structure), limits=_limits())
        except ValueError as error:
            raise structure.refusal(str(error)) from error
        if problem := _error_of(matcher):
            raise structure.refusal(problem)
        return matcher

    def _keep(self, structure: Structure, matcher: Any) -> None:
        self._compiled[structure] = matcher
        self._compiled_bytes += len(structure.text.encode())
        while self._compiled_bytes > CACHED_BYTES and len(self._compiled) > 1:
            oldest, _ = self._compiled.popitem(last=False)
            self._compiled_bytes -= len(oldest.text.encode())
