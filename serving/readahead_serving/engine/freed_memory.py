"""Memory that was freed and not yet given back to the system."""

from __future__ import annotations

import ctypes


def give_back_freed_memory() -> None:
    """Returns what the allocator keeps for later use. Takes milliseconds; call it after something large has gone.

    glibc keeps freed blocks of up to 32 MB each, so that a model that was converted while it was loaded, or the copy
    that a pack was written from, would count as the process's memory for ever. Elsewhere it does nothing.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
