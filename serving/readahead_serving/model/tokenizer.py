"""Text to token ids and back, for byte-level BPE and SentencePiece tokenizers."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import tokenizers
from tokenizers import AddedToken

from readahead_serving.errors import ModelLoadError, RequestRefused
from readahead_serving.model.chat_template import ChatTemplate
from readahead_serving.model.token_bound import TokenBound
from readahead_serving.model.token_bytes import token_reader, without_prefix_space

_PRIVATE_USE = range(0xE000, 0xF900)


class Tokenizer:
    """One model's tokenizer.

    Args:
        json_text: A tokenizer.json whose decoder is byte-level or SentencePiece's.
        eos_ids: The ids that end a completion.
        template: The chat template, where the model has one.

    Raises:
        ModelLoadError: The text is no tokenizer, or one whose tokens stand for no exact bytes.
    """

    def __init__(self, json_text: str, *, eos_ids: Iterable[int], template: ChatTemplate | None = None) -> None:
        self._json_text = json_text
        self._with_special = _parse(json_text)
        # a copy, because the switch is the tokenizer's state and not the call's
        self._without_special = _parse(json_text)
        self._without_special.encode_special_tokens = True
        self._read_token = token_reader(json_text)
        continuing = without_prefix_space(json_text)
        self._continuing = self._without_special if continuing is None else _parse(continuing)
        self._continuing.encode_special_tokens = True
        added = self._with_special.get_added_tokens_decoder()
        self._special = {token.content: number for number, token in added.items() if token.special}
        self._added_bytes = {number: b"" if t.special else t.content.encode() for number, t in added.items()}
        self._special_pattern = _special_pattern([token for token in added.values() if token.special])
        self._breakable = _breakable_pattern(self._special)
        self._template = template
        self.eos_ids = frozenset(eos_ids)
        self.special_ids = frozenset(self._special.values())
        """Tokens that steer the model and are no part of any text."""

    @property
    def vocab_size(self) -> int:
        """Token ids are below this. The model's own vocabulary may be padded beyond it."""
        return self._with_special.get_vocab_size(with_added_tokens=True)

    @property
    def template_digest(self) -> str:
        """Names the chat template; empty without one."""
        return self._template.digest if self._template else ""

    def warm_up(self) -> None:
        """Makes now what the first request would wait for: 0.3 s for 50,000 tokens. Call it in a thread."""
        self.least_tokens("")
        self.token_bytes(0)
        if self._template is not None:
            with contextlib.suppress(RequestRefused):
                self.encode_chat([{"role": "user", "content": "Hello"}])

    def to_json(self) -> str:
        """The tokenizer.json text."""
        return self._json_text

    def encode(self, text: str, *, allow_special: bool) -> list[int]:
        """Encodes text, adding nothing to it.

        Args:
            text: Lone surrogates are replaced by U+FFFD.
            allow_special: Whether "<|im_end|>" and its like become the special token. Text that a user wrote must not
                have that power: pass False, and it becomes the ordinary tokens of its characters.
        """
        tokenizer = self._with_special if allow_special else self._without_special
        return _ids(tokenizer, _clean(text))

    def encode_prompt(self, text: str) -> list[int]:
        """Encodes a raw completion's prompt: special tokens count, and BOS leads where the model wants it."""
        return _ids(self._with_special, _clean(text), add_special_tokens=True)

    def least_tokens(self, text: str) -> int:
        """Tokens that a text has at least, told by its length without encoding it; 0 where that tells nothing."""
        return self._bound.least_tokens(text)

    @cached_property
    def _bound(self) -> TokenBound:
        return TokenBound(self._json_text)

    @property
    def knows_tools(self) -> bool:
        """Whether the chat template lists tools and writes calls, in the form that is read back here."""
        return self._template is not None and self._template.knows_tools

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> list[int]:
        """Renders and encodes a conversation so that only the template's own special tokens are special.

        A message that spells a special token is cut there by a mark before rendering. The rendered text is split at
        what special tokens remain, which are the template's; the pieces between lose their marks and are encoded as
        plain text. Tokenizers split at special tokens too, so ordinary conversations encode as they would whole.

        Raises:
            RequestRefused: The model has no template, or it takes no such conversation.
        """
        mark = _unused_character((messages, tools))

        def guard(text: str) -> str:
            return self._guard(_clean(text), mark)

        guarded = [_mapped(message, guard) for message in messages]
        text = self._render(guarded, add_generation_prompt, [_mapped(tool, guard) for tool in tools])
        ids: list[int] = []
        at = 0
        for match in self._special_pattern.finditer(text):
            ids += self._encode_piece(text[at : match.start()], mark, at)
            ids.append(self._special[match[1]])
            at = match.end()
        return ids + self._encode_piece(text[at:], mark, at)

    def render_chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> str:
        """The conversation as text, for people to look at: encoding it would let messages forge special tokens.

        Raises:
            RequestRefused: The model has no template, or it takes no such conversation.
        """
        return self._render(messages, add_generation_prompt)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of tokens. Special tokens have none; bytes that are no UTF-8 become U+FFFD.

        A space that SentencePiece has put before the first word is part of it.
        """
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        """One token's exact bytes, perhaps a part of a code point; none for special and unknown ids."""
        return self._bytes.get(token_id, b"")

    @cached_property
    def _bytes(self) -> Mapping[int, bytes]:
        vocabulary = self._with_special.get_vocab(with_added_tokens=False)
        plain = {number: self._read_token(token) for token, number in vocabulary.items()}
        return plain | self._added_bytes

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        if self._template is None:
            raise RequestRefused(
                "This model has no chat template: send a prompt to /v1/completions instead.",
                param="model",
                code="no_chat_template",
            )
        return self._template.render(messages, add_generation_prompt=add_generation_prompt, tools=tools)

    def _guard(self, text: str, mark: str) -> str:
        return self._breakable.sub(lambda match: match[0][0] + mark + match[0][1:], text)

    def _encode_piece(self, text: str, mark: str, at: int) -> list[int]:
        tokenizer = self._continuing if at else self._without_special
        return _ids(tokenizer, _clean(text.replace(mark, ""))) if text else []


def _parse(json_text: str) -> tokenizers.Tokenizer:
    try:
        tokenizer = tokenizers.Tokenizer.from_str(json_text)
    # the library raises bare Exception for every malformed file
    except Exception as error:
        raise ModelLoadError(f"The tokenizer is damaged or of an unknown kind ({error}).") from error
    # published files may cut or fill every text to the length of some training run
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _ids(tokenizer: tokenizers.Tokenizer, text: str, *, add_special_tokens: bool = False) -> list[int]:
    # Only the encoding of batches lets go of the interpreter's lock: a megabyte holds it for a second otherwise, and
    # with it the event loop, from whatever thread.
    [encoding] = tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)
    return list(encoding.ids)


def _clean(text: str) -> str:
    """Lone surrogates, which JSON can carry, have no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


def _special_pattern(tokens: Sequence[AddedToken]) -> re.Pattern[str]:
    """Finds special tokens, group 1, with the white space that some swallow on either side."""
    by_length = sorted(tokens, key=lambda token: -len(token.content))
    left = r"\s*" if any(token.lstrip for token in tokens) else ""
    right = r"\s*" if any(token.rstrip for token in tokens) else ""
    names = "|".join(re.escape(token.content) for token in by_length) or r"(?!)"
    return re.compile(f"{left}({names}){right}")


def _breakable_pattern(contents: Iterable[str]) -> re.Pattern[str]:
    """Finds special tokens, and their beginnings where the text ends: what follows could complete them."""
    whole = sorted(contents, key=len, reverse=True)
    beginnings = sorted({text[:n] for text in whole for n in range(1, len(text))}, key=len, reverse=True)
    choices = [re.escape(text) for text in whole] + [re.escape(text) + r"\Z" for text in beginnings]
    return re.compile("|".join(choices) or r"(?!)")


def _texts(value: Any) -> Iterator[str]:
    """All strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _texts(inner)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every string in it changed, keys too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): _mapped(inner, change) for key, inner in value.items()}
    return [_mapped(inner, change) for inner in value] if isinstance(value, Sequence) else value


def _unused_character(values: Any) -> str:
    used = set[str]().union(*_texts(values))
    free = next((one for one in map(chr, _PRIVATE_USE) if one not in used), None)
    if free is None:
        raise RequestRefused("The messages use every private-use character.", param="messages", code="invalid_messages")
    return free
