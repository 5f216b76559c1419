"""The tool calls of one run: what was asked before is not asked again and again."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from readahead_agents.mcp.toolset import ToolOutcome, ToolSpec

MAX_SAME_CALLS = 2
"""A third call of one tool with the same arguments would bring what the first two brought."""
SHOWN_CHARS = 300
SHOWN_ITEMS = 8


class CallLog:
    """Remembers calls by tool and arguments."""

    def __init__(self) -> None:
        self._made: Counter[str] = Counter()
        self._results: dict[str, ToolOutcome] = {}
        self._refused: dict[str, ToolOutcome] = {}
        self.loops: list[str] = []
        """One sentence for each call that was not made, as it went round in circles."""

    def before(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolOutcome | None:
        """What the call need not be made for: its earlier result, or the reason why it is not made. Else counts it."""
        key = _key(tool.name, arguments)
        if tool.repeatable and key in self._results:
            return self._results[key]
        if key in self._refused:
            return self._refused[key]
        if self._made[key] >= MAX_SAME_CALLS:
            told = f"{tool.name} was called {MAX_SAME_CALLS} times with the same arguments, and is not called again."
            self.loops = list(dict.fromkeys([*self.loops, told]))
            return ToolOutcome(ok=False, text=f"Not begun: {told}")
        self._made[key] += 1
        return None

    def after(self, tool: ToolSpec, arguments: dict[str, Any], outcome: ToolOutcome) -> None:
        if outcome.ok:
            self._results[_key(tool.name, arguments)] = outcome

    def refuse(self, tool: ToolSpec, arguments: dict[str, Any], outcome: ToolOutcome) -> None:
        """Nobody is asked twice for one call."""
        self._refused[_key(tool.name, arguments)] = outcome


def shown(value: Any) -> Any:
    """Arguments for an event: whole results of earlier steps are megabytes."""
    if isinstance(value, str):
        return value if len(value) <= SHOWN_CHARS else f"{value[:SHOWN_CHARS]} …"
    if isinstance(value, list | tuple):
        rest = [f"… {len(value) - SHOWN_ITEMS} more"] if len(value) > SHOWN_ITEMS else []
        return [*map(shown, value[:SHOWN_ITEMS]), *rest]
    return {key: shown(item) for key, item in value.items()} if isinstance(value, dict) else value


def _key(tool: str, arguments: dict[str, Any]) -> str:
    return json.dumps([tool, arguments], sort_keys=True, default=str)
