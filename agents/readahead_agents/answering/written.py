"""A text as a model writes it: filtered, cut into sentences, ended where it begins to go round in circles."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from readahead_agents.answering.packing import PackedPrompt
from readahead_agents.answering.shown_text import ShownText
from readahead_agents.llm.base import CompletionOptions, LanguageModel, TokenUsage
from readahead_agents.loops import loops
from readahead_retrieval.sentences import sentence_spans
from readahead_retrieval.types import Evidence

MIN_REPEAT_CHARS = 12
MAX_SENTENCE_CHARS = 2_000
"""A run without an end is cut here, so that nothing is held for ever."""

_NUMBERING = re.compile(r"\[\s*S\d[^\]]*\]|^\s*(?:\d{1,3}[.)]|[-*•])\s+", re.IGNORECASE)
_CUT = " \n\t\r\ufffd"
"""What is no end of a text: a limit on tokens may cut a letter in its middle."""


class WrittenText:
    """One text being written; once the stream has ended, its fields tell what came of it."""

    def __init__(self, llm: LanguageModel, passages: Sequence[Evidence], link_hosts: Sequence[str] = ()) -> None:
        self._llm = llm
        self._shown = ShownText(passages, link_hosts)
        self._said: set[str] = set()
        self._rest = ""
        self._written = ""
        self._usage: TokenUsage | None = None
        self.finish_reason: Literal["stop", "length"] = "stop"

    async def sentences(self, prompt: PackedPrompt, options: CompletionOptions) -> AsyncGenerator[str, None]:
        """The sentences as they end, each with the white space before it. Closing it ends the work at the server.

        A text that says a sentence again, or the same few words on end, ends there.
        """
        options = replace(options, max_tokens=min(options.max_tokens, prompt.max_tokens))
        async with aclosing(self._llm.stream(prompt.messages, options)) as chunks:
            async for chunk in chunks:
                self._usage = chunk.usage or self._usage
                self._add(self._shown.feed(chunk.text))
                for sentence in self._ended():
                    if self._repeats(sentence):
                        return
                    yield sentence
                if chunk.finish_reason is not None:
                    self.finish_reason = "length" if chunk.finish_reason == "length" else "stop"
                elif loops(self._rest):
                    return
        self._add(self._shown.finish())
        for sentence in self._ended():
            if not self._repeats(sentence):
                yield sentence
        if (last := self._rest.rstrip(_CUT)) and not self._repeats(last, cut=True):
            yield last

    def _add(self, piece: str) -> None:
        self._rest += piece
        self._written += piece

    def _ended(self) -> list[str]:
        """The sentences that another one has begun behind; the last may still go on."""
        ends = [end for _, end in sentence_spans(self._rest)][:-1]
        ended = [self._rest[start:end] for start, end in pairwise([0, *ends])]
        cut = ends[-1] if ends else 0
        if not ended and len(self._rest) > MAX_SENTENCE_CHARS:
            ended, cut = [self._rest], len(self._rest)
        self._rest = self._rest[cut:]
        return ended

    def _repeats(self, sentence: str, *, cut: bool = False) -> bool:
        """Whether it was said before, under whatever number or marker; of one that was cut, its beginning."""
        said = " ".join(_NUMBERING.sub(" ", sentence).casefold().split())
        if len(said) < MIN_REPEAT_CHARS:
            return False
        again = said in self._said or (cut and any(earlier.startswith(said) for earlier in self._said))
        self._said.add(said)
        return again

    async def usage(self, prompt: PackedPrompt) -> TokenUsage:
        """What it has cost; counted by us where the stream was cut before it told."""
        if self._usage is not None:
            return self._usage
        [written] = await self._llm.count_tokens([self._written])
        return TokenUsage(prompt.prompt_tokens, written, calls=1)
