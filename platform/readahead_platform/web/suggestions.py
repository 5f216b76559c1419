"""First questions for somebody who doesn't know yet what to ask."""

from __future__ import annotations

from collections.abc import Sequence

from readahead_retrieval.types import Document, DocumentState

_SAMPLES = {
    "c40-cold-room-controller-manual.pdf": "What does error code E12 mean, and what should I do?",
    "saltmere-harbour-handbook.pdf": "How high did the water rise in the storm of January 2028?",
    "travel-and-expense-policy.pdf": "How much is paid per kilometre for a private car?",
    "site-inspection-report.pdf": "What was found on the footbridge, and by when must it be mended?",
    "night-ventilation-note.pdf": "Summarize the findings on night ventilation and planted roofs.",
    "moonlight-library-ko.pdf": "열람실에는 좌석이 몇 석 있습니까?",
}
_MOST = 4


def suggestions(documents: Sequence[Document]) -> list[str]:
    """At most four questions that these documents answer."""
    names = {document.name for document in documents if document.state is DocumentState.SEARCHABLE}
    fitting = [question for name, question in _SAMPLES.items() if name in names]
    own = sorted(names - _SAMPLES.keys())
    general = [f"What are the main points of {name.removesuffix('.pdf')}?" for name in own]
    return [*general[:2], *fitting, *general[2:]][:_MOST]
