"""Writes a text from numbered passages: streamed, filtered, cited. Shared by answers, actions and synthesis."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Literal

from readahead_agents.events import Answered, AnswerEvent, CitationFound, Token
from readahead_agents.evidence import EvidenceSource
from readahead_agents.llm import CompletionOptions, LanguageModel, TokenUsage
from readahead_agents.packing import PackedPrompt
from readahead_agents.quotation import closing_quotation
from readahead_agents.shown_text import ShownText
from readahead_retrieval.types import Evidence

REFUSAL = "Not in the documents"
"""What the prompt asks the model to say when the passages do not answer; it then needs no support."""


class GroundedText:
    """One text being written; once the stream has ended, its fields tell what came of it."""

    def __init__(self, llm: LanguageModel, passages: Sequence[Evidence]) -> None:
        self._llm = llm
        self._shown = ShownText(passages)
        self.text = ""
        self.usage = TokenUsage()
        self.finish_reason: Literal["stop", "length"] = "stop"

    async def stream(self, prompt: PackedPrompt, options: CompletionOptions) -> AsyncGenerator[Token, None]:
        """The text in pieces as they may be shown. Closing it ends the work at the server."""
        async with aclosing(self._llm.stream(prompt.messages, options)) as chunks:
            async for chunk in chunks:
                if piece := self._add(self._shown.feed(chunk.text)):
                    yield Token(piece)
                if chunk.finish_reason is not None:
                    self.finish_reason = "length" if chunk.finish_reason == "length" else "stop"
                    self.usage = chunk.usage or TokenUsage()
        if piece := self._add(self._shown.finish().rstrip()):
            yield Token(piece)

    def _add(self, piece: str) -> str:
        piece = piece if self.text else piece.lstrip()
        self.text += piece
        return piece


async def grounded_answer(
    llm: LanguageModel,
    source: EvidenceSource,
    question: str,
    prompt: PackedPrompt,
    options: CompletionOptions,
    *,
    spent: TokenUsage | None = None,
    notes: Sequence[str] = (),
) -> AsyncGenerator[AnswerEvent, None]:
    """Streams an answer from the prompt's passages, then its citations, then `Answered`.

    An answer that no passage supports is followed by the closest quotation, marked as ours.
    """
    written = GroundedText(llm, prompt.passages)
    async with aclosing(written.stream(prompt, options)) as tokens:
        async for token in tokens:
            yield token
    text = written.text
    refused = text.lower().startswith(REFUSAL.lower())
    citations = [] if refused else await source.cite(text, prompt.passages)
    quoted = not (refused or citations)
    if quoted:
        quotation = closing_quotation(question, text, prompt.passages)
        quotation = quotation if text else quotation.lstrip()
        yield Token(quotation, quoted=True)
        text += quotation
        citations = await source.cite(text, prompt.passages)
    for citation in citations:
        yield CitationFound(citation)
    yield Answered(
        answer=text,
        citations=tuple(citations),
        usage=(spent or TokenUsage()) + written.usage,
        finish_reason=written.finish_reason,
        covered=not refused,
        quoted=quoted,
        notes=(*prompt.notes(), *notes),
    )
