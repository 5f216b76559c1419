"""What every rule works with: the steps of a plan, and what the plan is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from readahead_agents.mcp.toolset import ToolSpec
from readahead_agents.planning.plan import Step
from readahead_agents.text import words


@dataclass(frozen=True, slots=True)
class Request:
    """What a plan is for, and what it may use."""

    question: str
    tools: dict[str, ToolSpec]
    max_steps: int


Steps = tuple[Step, ...]
Rule = Callable[[Steps, Request], tuple[Steps, str]]
"""Gives the mended steps, and what was changed: an empty text where nothing was."""


def asked_by(step: Step) -> str:
    """What a step asks, in words."""
    return str(step.arguments.get("question") or step.arguments.get("topic") or "")


def singular(text: str) -> frozenset[str]:
    return frozenset(word.removesuffix("s") for word in words(text))


def is_own(step: Step, request: Request) -> bool:
    return not request.tools[step.tool].server
