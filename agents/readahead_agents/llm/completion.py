"""Whole completions, for texts that nobody watches being written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from readahead_agents.llm.base import CompletionOptions, LanguageModel, Message


async def complete(llm: LanguageModel, messages: Sequence[Message], options: CompletionOptions) -> str:
    """The completion's text. Raises `LanguageModelError`."""
    async with aclosing(llm.stream(messages, options)) as chunks:
        return "".join([chunk.text async for chunk in chunks])
