"""What a file holds beside its pages and is not read: said, not silently left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pypdfium2 as pdfium
from pypdfium2 import raw

from readahead_retrieval.pdf.clean import clean_line

MAX_ATTACHMENTS = 50
"""Named; a file may hold thousands."""
MAX_NAME_CHARACTERS = 200

MAX_RUNS = 20
"""Of page numbers, in one sentence."""

_XFA = frozenset({raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND})


def document_notes(document: pdfium.PdfDocument) -> list[str]:
    """Sentences for the person who uploaded the file."""
    notes = []
    if document.get_formtype() in _XFA:
        notes.append("The file is an XFA form: what it shows in other viewers is not read, only its plain pages are.")
    names = list(_attachments(document))
    if names:
        more = document.count_attachments() - len(names)
        listed = ", ".join(names) + (f" and {more} more" if more > 0 else "")
        notes.append(f"Attached files are not read: {listed}. Upload them by themselves.")
    return notes


def _attachments(document: pdfium.PdfDocument) -> Iterator[str]:
    for index in range(min(document.count_attachments(), MAX_ATTACHMENTS)):
        with suppress(pdfium.PdfiumError):
            name = document.get_attachment(index).get_name()
            yield clean_line(name)[:MAX_NAME_CHARACTERS] or f"number {index + 1}"


def recognised_note(numbers: Sequence[int]) -> str:
    """For a document whose pages of these numbers, in order, show pictures of text."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    named = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs[:MAX_RUNS])
    more = f" and {len(runs) - MAX_RUNS} more runs of pages" if len(runs) > MAX_RUNS else ""
    one = len(numbers) == 1
    return (
        f"{'Page' if one else 'Pages'} {named}{more} {'is a picture' if one else 'are pictures'} of text, read by text "
        "recognition (OCR): words may be wrong."
    )
