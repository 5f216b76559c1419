"""What a pack is made from, and which tokens of a conversation it stands for."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Protocol

import msgspec

from readahead_serving.engine.kv.pack_manifest import DocumentSpan
from readahead_serving.engine.kv.pack_table import common_prefix
from readahead_serving.errors import RequestRefused

_PROBES = (
    {"role": "user", "content": "x"},
    {"role": "user", "content": "\n\n7"},
    {"role": "user", "content": " Why?"},
    {"role": "assistant", "content": "x"},
)
"""What may follow a pack. Tokens that depend on it are no part of the pack."""
_NEAR = 16
"""Tokens that a special token at the pack's end may lie back."""


class ChatEncoder(Protocol):
    """The part of a tokenizer that makes packs."""

    special_ids: frozenset[int]

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]: ...

    def token_bytes(self, token_id: int) -> bytes: ...


class PackMessage(msgspec.Struct, frozen=True):
    """One message that requests on the pack begin with."""

    role: str
    content: str


class PackDocument(msgspec.Struct, frozen=True):
    """A text of the pack's system message."""

    title: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class PackSource(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a pack. Documents stand in the system message, after its own text, each under its title."""

    messages: tuple[PackMessage, ...] = ()
    documents: tuple[PackDocument, ...] = ()

    def rendered(self) -> list[dict[str, str]]:
        """The messages that a chat request must begin with to read the pack."""
        messages = [{"role": m.role, "content": m.content} for m in self.messages]
        if self.documents:
            if not messages or messages[0]["role"] != "system":
                messages.insert(0, {"role": "system", "content": ""})
            parts = [messages[0]["content"], *(f"# {d.title}\n\n{d.text}" for d in self.documents)]
            messages[0]["content"] = "\n\n".join(part for part in parts if part)
        return messages

    def extended(self, documents: Sequence[PackDocument]) -> PackSource:
        """With documents at the end, so that all tokens before them stay as they are."""
        return PackSource(messages=self.messages, documents=(*self.documents, *documents))

    def pack_id(self, salt: str) -> str:
        """Named by content and tenant: the same texts twice are one pack, and never one with another tenant's."""
        digest = hashlib.sha256(b"readahead pack\0" + salt.encode() + b"\0" + msgspec.json.encode(self))
        return f"pack_{digest.hexdigest()[:32]}"


class PackTokens(msgspec.Struct, frozen=True, kw_only=True):
    """A pack's source in a model's tokens."""

    token_ids: list[int]
    documents: list[DocumentSpan]


def encode_pack(source: PackSource, encoder: ChatEncoder) -> PackTokens:
    """The tokens that every conversation beginning with the source's messages begins with.

    The conversation is rendered with several continuations, and what all have in common is cut after its last special
    token: text on both sides of one is tokenised apart, so that no question can change a token of the pack. For
    ChatML that is the `<|im_start|>` of the next turn. Slow: call it in a thread.

    Raises:
        RequestRefused: The template takes no such messages, or nothing stays the same.
    """
    messages = source.rendered()
    rendered = [encoder.encode_chat([*messages, _PROBES[0]])]
    for probe in _PROBES[1:]:
        try:
            rendered.append(encoder.encode_chat([*messages, probe]))
        except RequestRefused:  # this template lets no such turn follow
            continue
    common = min(common_prefix(rendered[0], other) for other in rendered)
    tokens = _at_a_border(rendered[0][:common], encoder.special_ids)
    if not tokens:
        raise RequestRefused("The pack is empty: give it messages or documents.", param="messages", code="empty_pack")
    return PackTokens(token_ids=tokens, documents=_spans(source.documents, tokens, encoder))


def _at_a_border(tokens: list[int], special: frozenset[int]) -> list[int]:
    for back in range(min(_NEAR, len(tokens))):
        if tokens[len(tokens) - 1 - back] in special:
            return tokens[: len(tokens) - back]
    return tokens[:-1]  # a template without special tokens: the last one may yet merge with what follows


def _spans(documents: Sequence[PackDocument], tokens: list[int], encoder: ChatEncoder) -> list[DocumentSpan]:
    """Finds each text by the bytes of the tokens, in one pass."""
    pieces = [encoder.token_bytes(token) for token in tokens]
    ends = list(accumulate(map(len, pieces)))
    text = b"".join(pieces)
    spans, at = [], 0
    for document in documents:
        data = document.text.strip().encode("utf-8", "replace")
        found = text.find(data, at)
        start = found if found >= 0 else at  # a template that trims or escapes: the span is then only near
        at = min(len(text), start + len(data))
        first, end = bisect_right(ends, start), bisect_right(ends, max(start, at - 1)) + 1
        spans.append(
            DocumentSpan(
                title=document.title,
                sha256=document.sha256,
                first_token=min(first, len(tokens)),
                end_token=min(end, len(tokens)),
            )
        )
    return spans
