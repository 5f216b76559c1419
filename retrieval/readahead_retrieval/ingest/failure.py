"""What nobody foresaw, in words for whoever added the document."""

from __future__ import annotations

from readahead_retrieval.errors import DocumentError, StorageFull, WorkshopDied
from readahead_retrieval.store.full_disk import means_full


def failure(error: Exception, what: str) -> DocumentError:
    """The same bytes may succeed later: the fault is not theirs as far as anybody knows."""
    if means_full(error):
        return DocumentError("disk_full", StorageFull().message, retryable=True)
    if isinstance(error, WorkshopDied):
        message = f"{what}: the process at work on it was ended twice. Try again when the machine has more memory free."
        return DocumentError("interrupted", message, retryable=True)
    message = f"{what} ({type(error).__name__}: {error}): try again, and look into the log if it stays so."
    return DocumentError("internal", message, retryable=True)
