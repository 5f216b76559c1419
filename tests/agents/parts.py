"""What the agents' tests are made of: a small knowledge base, and models that say what they are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from readahead_agents.errors import LanguageModelError
from readahead_agents.events import Answered, Token
from readahead_agents.fixed_evidence import FixedEvidenceSource, passage
from readahead_agents.llm.base import CompletionOptions, Message
from readahead_agents.llm.scripted import Script, ScriptedCall
from readahead_agents.settings import AgentSettings

Event = TypeVar("Event")
SETTINGS = AgentSettings()
ACTIONS = [
    "compare",
    "doc_read",
    "extract_table",
    "generate_analysis",
    "generate_summary",
    "kb_grep",
    "query_rag_with_context",
]
FILTER = "The filter of the pump is cleaned every 30 days with water."
PRICE = "The pump costs 240 crowns, and a new filter costs 12 crowns."
WARRANTY = "The warranty of the mixer is 24 months from the date of delivery."


def pump_kb() -> FixedEvidenceSource:
    """Three passages of two documents."""
    passages = [passage("pump.pdf", 3, FILTER), passage("pump.pdf", 5, PRICE), passage("mixer.pdf", 2, WARRANTY)]
    return FixedEvidenceSource(passages, name="machines")


async def collect(events: AsyncGenerator[Event, None]) -> list[Event]:
    async with aclosing(events):
        return [event async for event in events]


def of(events: Sequence[object], kind: type[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


def ending(events: Sequence[object]) -> Answered:
    """The last event, with what holds of every answer: its tokens joined are its text."""
    last = events[-1]
    assert isinstance(last, Answered)
    assert "".join(token.text for token in of(events, Token)) == last.answer
    return last


async def forever(call: ScriptedCall) -> None:
    """A model that says its first word and then nothing."""
    await asyncio.Event().wait()


def step(tool: str, depends_on: Sequence[str] = (), **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments, "depends_on": list(depends_on)}


def planning(
    steps: Sequence[dict[str, Any]] | str, replies: Mapping[str, str | LanguageModelError], default: str = FILTER
) -> Script:
    """A model that plans the given steps, and replies to prompts by the first key that they hold."""

    def script(messages: Sequence[Message], options: CompletionOptions) -> str | LanguageModelError:
        if options.json_schema is not None:
            return steps if isinstance(steps, str) else json.dumps({"reasoning": "because", "steps": list(steps)})
        asked = messages[-1].content
        return next((reply for key, reply in replies.items() if key in asked), default)

    return script
