"""Stop strings, wherever the borders of tokens fall."""

from __future__ import annotations

from collections.abc import Sequence


class StopChecker:
    """Passes text on up to the first stop string, and never a part of one.

    The stop string that is complete first ends the text (the one that begins earlier if two are complete at once), so
    that the result does not depend on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.found = False

    def push(self, text: str) -> str:
        """Takes the next piece; returns what can be shown of all held so far."""
        assert not self.found, "text after the end"
        if not self._stops:
            return text
        held = self._held + text
        ends = [(held.index(stop) + len(stop), -len(stop)) for stop in self._stops if stop in held]
        if ends:
            self.found = True
            self._held = ""
            end, negative_length = min(ends)
            return held[: end + negative_length]
        keep = self._possible_beginning(held)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def flush(self) -> str:
        """The text held back, now that no more can come."""
        held, self._held = self._held, ""
        return held

    def _possible_beginning(self, text: str) -> int:
        """Length of the longest end of `text` that a stop string could begin with."""
        longest = max(len(stop) for stop in self._stops) - 1
        return next(
            (n for n in range(min(longest, len(text)), 0, -1) if any(s.startswith(text[-n:]) for s in self._stops)), 0
        )
