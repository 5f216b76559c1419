"""Why a file could not be read, in a sentence for the person who uploaded it."""

from __future__ import annotations

from readahead_retrieval.errors import DocumentError
from readahead_retrieval.pdf.process import Death


def of_death(death: Death, timeout_s: float, why: str) -> DocumentError:
    """The failure that the end of the process means; `why` says what broke it, where it was the file."""
    if death is Death.OUT_OF_MEMORY:
        return too_large()
    if death is Death.OUT_OF_TIME:
        return timed_out(timeout_s)
    return interrupted() if death is Death.KILLED else corrupt(why)


def timed_out(seconds: float) -> DocumentError:
    """Retryable: the machine may have been busy with something else."""
    message = (
        f"Reading the file took longer than {seconds:g} seconds. "
        "Add it again when the machine is less busy, split it, or raise read_timeout_s."
    )
    return DocumentError("timed_out", message, retryable=True)


def interrupted() -> DocumentError:
    """Says nothing about the file."""
    message = (
        "Reading the file was ended from outside, twice; most often because the machine ran out of memory. "
        "Add it again when the machine is less busy."
    )
    return DocumentError("interrupted", message, retryable=True)


def corrupt(why: str) -> DocumentError:
    return DocumentError("corrupt", f"The file is damaged: {why}. Save or export it again.")


def too_large() -> DocumentError:
    return DocumentError("too_large", "The file needs more memory than a file may take. Split it or export it again.")
