"""Answers as HTML. Models repeat what documents say, so nothing in an answer may become markup, link or image."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt

_markdown = (
    MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table").disable(["image", "link", "autolink"])
)
_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private characters around a source's number on its way through Markdown."""
_MARK = re.compile(f"{_OPEN}(\\d+){_CLOSE}")


def answer_html(answer: str, marks: Sequence[tuple[int, int]] = ()) -> str:
    """Renders Markdown with the number of a source at each mark.

    Args:
        answer: Untrusted text.
        marks: (offset, number), in order of the offsets.
    """
    text = answer.replace(_OPEN, "").replace(_CLOSE, "") if not marks else _with_marks(answer, marks)
    return _MARK.sub(_button, _markdown.render(text))


def _with_marks(answer: str, marks: Sequence[tuple[int, int]]) -> str:
    parts, start = [], 0
    for offset, number in marks:
        parts += [_bare(answer[start:offset]), f"{_OPEN}{number}{_CLOSE}"]
        start = offset
    return "".join([*parts, _bare(answer[start:])])


def _bare(text: str) -> str:
    return text.replace(_OPEN, "").replace(_CLOSE, "")


def _button(match: re.Match[str]) -> str:
    number = match[1]
    return (
        f'<button type="button" class="ra-mark" data-source="{number}" aria-label="Source {number}">{number}</button>'
    )
