"""Writes a text from numbered passages: streamed, filtered, cited. Shared by answers, actions and synthesis."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Literal

from readahead_agents.events import Answered, AnswerEvent, CitationFound, Token
from readahead_agents.evidence import EvidenceSource
from readahead_agents.llm import CompletionOptions, LanguageModel, TokenUsage
from readahead_agents.packing import PackedPrompt
from readahead_agents.quotation import closing_quotation
from readahead_agents.shown_text import ShownText
from readahead_agents.support import declines, support
from readahead_agents.text import sentences
from readahead_retrieval.types import Evidence

MIN_REPEAT_CHARS = 12
_END = re.compile(r"[.!?。\n]")


class GroundedText:
    """One text being written; once the stream has ended, its fields tell what came of it."""

    def __init__(self, llm: LanguageModel, passages: Sequence[Evidence]) -> None:
        self._llm = llm
        self._shown = ShownText(passages)
        self.text = ""
        self.usage: TokenUsage | None = None
        self.finish_reason: Literal["stop", "length"] = "stop"

    async def stream(self, prompt: PackedPrompt, options: CompletionOptions) -> AsyncGenerator[Token, None]:
        """The text in pieces as they may be shown. Closing it ends the work at the server.

        A model that begins to say the same sentence again would do so until its limit: the text ends there.
        """
        options = replace(options, max_tokens=min(options.max_tokens, prompt.max_tokens))
        async with aclosing(self._llm.stream(prompt.messages, options)) as chunks:
            async for chunk in chunks:
                if piece := self._add(self._shown.feed(chunk.text)):
                    yield Token(piece)
                if chunk.finish_reason is not None:
                    self.finish_reason = "length" if chunk.finish_reason == "length" else "stop"
                    self.usage = chunk.usage
                elif self._repeats(chunk.text):
                    break
        if piece := self._add(self._shown.finish().rstrip()):
            yield Token(piece)
        if self.usage is None:
            [written] = await self._llm.count_tokens([self.text])
            self.usage = TokenUsage(prompt.prompt_tokens, written)

    def _add(self, piece: str) -> str:
        piece = piece if self.text else piece.lstrip()
        self.text += piece
        return piece

    def _repeats(self, piece: str) -> bool:
        """Whether the sentence or line that this piece ended was said before."""
        if not _END.search(piece):
            return False
        said = [self.text[start:end].casefold() for start, end in sentences(self.text)]
        if not _END.search(self.text[-1:]):
            said = said[:-1]  # the next one has begun
        return len(said) > 1 and len(said[-1]) >= MIN_REPEAT_CHARS and said[-1] in said[:-1]


async def grounded_answer(
    llm: LanguageModel, source: EvidenceSource, question: str, prompt: PackedPrompt, options: CompletionOptions
) -> AsyncGenerator[AnswerEvent, None]:
    """Streams an answer from the prompt's passages, then its citations, then `Answered`.

    An answer that the passages do not support is followed by the closest statement as a quotation, marked as ours.
    """
    written = GroundedText(llm, prompt.passages)
    async with aclosing(written.stream(prompt, options)) as tokens:
        async for token in tokens:
            yield token
    text = written.text
    declined = declines(text)
    found = await support(source, question, text, prompt.passages)
    quoted = not declined and not found.sufficient
    citations = found.citations
    if quoted:
        quotation = closing_quotation(question, prompt.passages)
        added = f"\n\n{quotation.text}" if text else quotation.text
        yield Token(added, quoted=True)
        text += added
        citations += await quotation.cited(source, text)
    for citation in citations:
        yield CitationFound(citation)
    yield Answered(
        answer=text,
        citations=citations,
        usage=written.usage or TokenUsage(),
        finish_reason=written.finish_reason,
        covered=not declined or bool(citations),
        quoted=quoted,
        notes=prompt.notes(),
    )
