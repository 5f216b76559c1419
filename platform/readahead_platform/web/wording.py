"""The page's words for states, steps and routes: plain, one sentence each."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from readahead_agents.approval import Decision
from readahead_agents.events import ApprovalRequired
from readahead_agents.mcp.external import SEPARATOR
from readahead_platform.routing.route import Route
from readahead_platform.web.turns import Approval
from readahead_retrieval.types import Document, DocumentState, KnowledgeBase

TOOLS = {
    "query_rag_with_context": "Search the documents",
    "generate_analysis": "Analyse what was found",
    "generate_summary": "Summarise what was found",
    "generate_profile_based_response": "Write it for the reader",
    "query_cag": "Ask the whole text",
    "compare": "Compare, each side by itself",
    "extract_table": "Take out the tables",
}
ROUTES = {"auto": "Auto", "rag": "Search", "cag": "Whole text", "agent": "Agent"}
"""Those that a person may choose."""
ROUTE_NAMES: Mapping[Route, str] = {"cag": "Whole text", "rag": "Search", "agent": "Agent"}
_FEW = 6
"""Page numbers that are listed before the rest is counted."""


def document_line(document: Document) -> str:
    """Where a document stands."""
    match document.state:
        case DocumentState.QUEUED:
            return "Waiting to be read"
        case DocumentState.EXTRACTING if document.pages:
            return f"Reading page {min(document.pages_done + 1, document.pages)} of {document.pages}"
        case DocumentState.EXTRACTING:
            return "Opening the file"
        case DocumentState.CHUNKING:
            return "Cutting the text into passages"
        case DocumentState.EMBEDDING:
            return f"Embedding passages, {document.chunks_done} of {document.chunks}"
        case DocumentState.INDEXING:
            return "Adding it to the index"
        case DocumentState.SEARCHABLE:
            return f"{_count(document.pages, 'page')} · {_count(document.chunks, 'passage')}"
        case DocumentState.CANCELLED:
            return "Cancelled"
        case DocumentState.FAILED:
            return document.error_message or "It could not be read."


def unread_line(document: Document) -> str:
    """Which pages hold no text that can be used; empty when all do."""
    pages = document.pages_unread
    if not pages or document.state is not DocumentState.SEARCHABLE:
        return ""
    listed = ", ".join(str(page) for page in pages[:_FEW])
    more = f" and {len(pages) - _FEW} more" if len(pages) > _FEW else ""
    plural = "pages" if len(pages) > 1 else "page"
    return f"Without readable text: {plural} {listed}{more} (scanned?)"


def whole_text_line(pack: Mapping[str, Any] | None) -> str:
    """Where a knowledge base's pack stands; None where it has none."""
    match pack:
        case None:
            return "The model has not read the whole text ahead."
        case {"state": "building"}:
            return f"The model is reading the whole text, {pack['progress']:.0%}"
        case {"state": "resident"}:
            return f"The model has read the whole text ({_count(pack['tokens'], 'token')})."
        case {"state": "on_disk"}:
            return f"The whole text is read and on disk ({_count(pack['tokens'], 'token')})."
        case {"state": "stale"}:
            return "The documents have changed since the model read the whole text."
        case _:
            return f"The whole text could not be read ahead: {pack.get('reason') or pack['state']}."


def is_being_read_ahead(pack: Mapping[str, Any] | None) -> bool:
    return pack is not None and pack["state"] == "building"


def can_be_read_ahead(pack: Mapping[str, Any] | None) -> bool:
    return pack is None or pack["state"] in {"stale", "failed"}


def problem_line(code: str | None, message: str) -> str:
    """Why there is no answer, in the words of the page."""
    if code == "pack_unavailable":
        return "The model has not read the whole text ahead: have it done below the documents, or choose Auto."
    return message


def progress(document: Document) -> float:
    """0–1, for a bar: reading is the first half, embedding most of the second."""
    read = document.pages_done / document.pages if document.pages else 0.0
    embedded = document.chunks_done / document.chunks if document.chunks else 0.0
    match document.state:
        case DocumentState.QUEUED:
            return 0.0
        case DocumentState.EXTRACTING:
            return 0.5 * read
        case DocumentState.CHUNKING:
            return 0.5
        case DocumentState.EMBEDDING:
            return 0.5 + 0.4 * embedded
        case DocumentState.INDEXING:
            return 0.92
        case _:
            return 1.0


def tool_name(tool: str) -> str:
    return TOOLS.get(tool, tool.replace("_", " ").capitalize())


def approval_line(asked: ApprovalRequired) -> str:
    own = asked.tool.removeprefix(f"{asked.server}{SEPARATOR}")
    return f"The agent wants to call “{own}” of the server “{asked.server}”, which may change something. Allow it?"


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """In full and as they are; what could hide or turn round letters is shown by its number."""
    written = json.dumps(arguments, ensure_ascii=False, indent=2)
    return "".join(_shown(letter) for letter in written)


def _shown(letter: str) -> str:
    hidden = unicodedata.category(letter)[0] == "C" or unicodedata.category(letter) in ("Zl", "Zp")
    return f"\\u{ord(letter):04x}" if hidden and letter != "\n" else letter


def patience_line(seconds: float) -> str:
    """How long a call waits."""
    minutes = round(seconds / 60)
    waits = _count(minutes, "minute") if minutes else _count(round(seconds), "second")
    return f"Without a word it is refused after {waits}."


def verdict_line(approval: Approval, *, ended: bool) -> str:
    """What became of a call; empty while it waits."""
    where = "" if approval.decided_here else ", decided elsewhere"
    match approval.decision:
        case Decision.APPROVED:
            return f"Allowed{where}"
        case Decision.DENIED:
            return f"Denied{where}"
        case Decision.EXPIRED:
            return "Refused, as nobody decided in time"
        case None:
            return "Not decided before the run ended" if ended else ""


def steps_line(steps: Sequence[float]) -> str:
    """ "3 steps, 2.1 s" from the milliseconds of finished steps."""
    if not steps:
        return "No step was taken"
    return f"{_count(len(steps), 'step')}, {sum(steps) / 1000:.1f} s"


def loss(kb: KnowledgeBase) -> str:
    """What is lost with a knowledge base."""
    if not kb.documents:
        return "It holds no documents. This can't be undone."
    which = "Its document" if kb.documents == 1 else f"All its {kb.documents} documents"
    return f"{which} will no longer be searched or cited. This can't be undone."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
