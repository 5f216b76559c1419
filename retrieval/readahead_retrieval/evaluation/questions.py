"""A question with its known answer, and files of them."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from readahead_retrieval.errors import QuestionsInvalid

ROLES = ("user", "assistant")


class Turn(NamedTuple):
    """Something that was said before a question."""

    role: str
    """One of `ROLES`."""
    content: str


@dataclass(frozen=True, slots=True)
class Question:
    """One line of a file of questions."""

    text: str
    answers: tuple[str, ...]
    """Strings that a right answer holds."""
    document: str
    """File name; empty where no document answers."""
    pages: tuple[int, ...]
    """1-based physical pages that bear evidence."""
    unanswerable: bool = False
    history: tuple[Turn, ...] = ()
    """The turns before it, oldest first."""
    stands_alone: bool = False
    """That it leans on none of them."""


def document_key(name: str) -> str:
    """What documents are compared by: the file name, composed, whatever folder it came from."""
    return unicodedata.normalize("NFC", name).rpartition("/")[2]


def read_questions(path: Path) -> list[Question]:
    """Reads a file of questions.

    Raises:
        QuestionsInvalid: The file cannot be read or is empty, or a line is not a question; names the line.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionsInvalid(f"{path} cannot be read: {error}") from error
    questions = [_question(f"{path}:{n}", line) for n, line in enumerate(lines, start=1) if line.strip()]
    if not questions:
        raise QuestionsInvalid(f"{path} holds no question.")
    return questions


def _question(where: str, line: str) -> Question:
    try:
        row: dict[str, Any] = json.loads(line)
        pages = row["pages"] if row.get("pages") else [row["page"]] if row.get("page") is not None else []
        return Question(
            text=_text(row["question"]),
            answers=tuple(_text(answer) for answer in row.get("answers") or ()),
            document=_text(document) if (document := row.get("document") or row.get("doc")) else "",
            pages=tuple(_page(page) for page in pages),
            unanswerable=bool(row.get("unanswerable", False)),
            history=tuple(Turn(_role(turn["role"]), _text(turn["content"])) for turn in row.get("history") or ()),
            stands_alone=bool(row.get("stands_alone", False)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:  # the last: nested too deep
        raise QuestionsInvalid(
            f"{where} is not a question: {error!r}. A line is "
            '{"question": "…", "answers": ["…"], "document": "file.pdf", "page": 1}.'
        ) from error


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is not a text")
    value.encode()  # half of a surrogate pair, which JSON can hold, can be sent nowhere
    return value


def _page(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{value!r} is not a page, which are counted from 1")
    return value


def _role(value: object) -> str:
    if value not in ROLES:
        raise ValueError(f"{value!r} is not a role, which are {' and '.join(ROLES)}")
    return str(value)
