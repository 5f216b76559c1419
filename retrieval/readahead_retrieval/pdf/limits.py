"""What reading one file may take."""

from __future__ import annotations

from dataclasses import dataclass

SECONDS_FOR_A_PAGE = 20.0


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Bounds of a reading process; none of them can be exceeded, whatever the file holds."""

    timeout_s: float = 60.0
    """For the whole file; the time that the caller takes between pages does not count."""
    memory_bytes: int = 1 << 30
    max_pages: int = 20_000
    page_timeout_s: float = SECONDS_FOR_A_PAGE
    """For one page, which is then left unread."""

    @property
    def cpu_seconds(self) -> int:
        """Of processor time: a little more than the parent waits, for a child whose parent is gone."""
        return int(self.timeout_s) + 2
