"""Questions that name a page, or a text letter by letter: they are answered from where that stands."""

from __future__ import annotations

import re
from dataclasses import replace

from readahead_agents.named_places import page_asked
from readahead_agents.planning.action_names import CAG, GREP, QUERY, READ
from readahead_agents.planning.plan import Step
from readahead_agents.planning.rules.request import Request, Steps, asked_by

_QUOTED = re.compile(r"[\"“„«「『]([^\"“”„«»「」『』]{2,120})[\"”“»」』]")
_CODE = re.compile(r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[A-Z])[A-Z0-9](?:[A-Z0-9]|[-_/.](?=[A-Z0-9])){3,30}(?![\w-])")
_ARGUMENT = {READ: "page", GREP: "pattern"}


def text_asked(question: str) -> str | None:
    """The one text that a question gives letter by letter: in quotes, or a code."""
    named = {match[1].strip() for match in _QUOTED.finditer(question)} or set(_CODE.findall(question))
    return named.pop() if len(named) == 1 else None


def nothing_invented(steps: Steps, request: Request) -> tuple[Steps, str]:
    """Pages and texts that the question does not name are a small model's invention."""
    asked = request.question.casefold()
    kept = tuple(step for step in steps if str(_named(step)).casefold() in asked)
    gone = sorted({step.tool for step in steps if step not in kept})
    return kept, f"Pages and texts that the question does not name were dropped: {', '.join(gone)}." if gone else ""


def _named(step: Step) -> object:
    argument = _ARGUMENT.get(step.tool)
    return "" if argument is None else step.arguments.get(argument, "")


def as_it_stands(steps: Steps, request: Request) -> tuple[Steps, str]:
    """What names a page is asked of that page; what holds a text letter by letter is found by it."""
    page, text = page_asked(request.question), text_asked(request.question)
    tool, name = (READ, page) if page is not None else (GREP, text)
    if name is None or tool not in request.tools or not any(_asks_for(step, name) for step in steps):
        return steps, ""
    others = [step for step in steps if step.tool != tool]
    mended = tuple(_placed(step, tool, name) if _asks_for(step, name) else step for step in others)
    return mended, f"The question names {name!r}: {tool} looks there."


def _asks_for(step: Step, name: str) -> bool:
    return step.tool in (QUERY, CAG) and name.casefold() in asked_by(step).casefold()


def _placed(step: Step, tool: str, name: str) -> Step:
    return replace(step, tool=tool, arguments={"question": asked_by(step), _ARGUMENT[tool]: name})
