"""How often a model may go on calling tools within one response."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from readahead_agents.limits import Budget
from readahead_platform.responses.writer import Item

MIN_CALL_S = 1.0


class Rounds:
    """Counts calls and seconds, and notices calls that were made before. Whatever ends them, the model answers next."""

    def __init__(self, calls: int, budget: Budget) -> None:
        """Args:
        calls: How many may be made.
        budget: Whose seconds they may take together.
        """
        self._left = calls
        self._budget = budget
        self._goes_round = False
        self.notes: list[str] = []
        """One sentence for each limit that was met."""

    @property
    def call_s(self) -> float:
        """Seconds that the next call may take."""
        return max(self._budget.remaining_s, MIN_CALL_S)

    def may_call(self) -> bool:
        """Whether tools are offered to the model."""
        if self._budget.remaining_s <= 0:
            self.notes.append("The seconds for calls of tools were spent; the answer stands on what there was.")
            return False
        return self._left > 0 and not self._goes_round

    def spend(self, calls: int) -> None:
        """Counts calls that are made whatever is left."""
        self._left = max(self._left - calls, 0)

    def within(self, wanted: Sequence[Item]) -> Sequence[Item]:
        """As many of the calls as are left."""
        return wanted[: self._left]

    def taken(self, wanted: Sequence[Item], is_new: Callable[[Item], bool]) -> list[Item]:
        """The calls to be made of those that the model wants."""
        new = [item for item in self.within(wanted) if is_new(item)]
        self._left -= len(new)
        if wanted and not new:
            self._goes_round = True
            names = ", ".join(dict.fromkeys(item["name"] for item in wanted))
            self.notes.append(f"{names} was called again with the same arguments; the answer stands on what there was.")
        return new
