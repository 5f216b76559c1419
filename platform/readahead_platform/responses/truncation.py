"""`truncation: "auto"`: what is read of a conversation that is longer than the model's window."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from readahead_agents.llm.base import LanguageModel, Message
from readahead_agents.memory.recent import MESSAGE_OVERHEAD, Remembered, newest_exchanges, newest_within
from readahead_platform.responses.items import ChatMessage


async def within_window(
    llm: LanguageModel, messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]], output_tokens: int
) -> tuple[list[ChatMessage], Remembered]:
    """The messages without the oldest exchanges, where all of them don't fit.

    Instructions and what was said last are never left out: where those alone are too long, the model's server says so.

    Args:
        tools: Descriptions that stand in the prompt too.
        output_tokens: Tokens to keep free for the answer; half of the window at most.
    """
    window = await llm.context_window()
    instructions = [message for message in messages if message["role"] == "system"]
    turns = [message for message in messages if message["role"] != "system"]
    newest = max((place for place, turn in enumerate(turns) if turn["role"] == "user"), default=0)
    earlier, last = turns[:newest], turns[newest:]
    fixed = [_text(each) for each in (*instructions, *last)] + [json.dumps(tool) for tool in tools]
    room = window - min(output_tokens, window // 2) - MESSAGE_OVERHEAD
    likely = len(newest_within([Message("user", _text(turn)) for turn in earlier], room))
    kept = earlier[len(earlier) - likely :]
    sizes = [count + MESSAGE_OVERHEAD for count in await llm.count_tokens([*fixed, *map(_text, kept)])]
    taken, sizes = sum(sizes[: len(fixed)]), sizes[len(fixed) :]
    fitting = newest_exchanges([turn["role"] for turn in kept], sizes, room - taken)
    remembered = Remembered(fitting, len(earlier) - fitting, sum(sizes[len(sizes) - fitting :]))
    return [*instructions, *kept[len(kept) - fitting :], *last], remembered


def _text(message: ChatMessage) -> str:
    calls = message.get("tool_calls")
    return (message["content"] or "") + (json.dumps(calls) if calls else "")
