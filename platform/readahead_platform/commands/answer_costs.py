"""What answers have cost, as medians: what `readahead eval` tells beside how good they are."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any


class AnswerCosts:
    """Collects the answers of one evaluation."""

    def __init__(self) -> None:
        self._figures: dict[str, list[float]] = {}

    def add(self, result: Mapping[str, Any]) -> None:
        """One answer, as `readahead ask --json` prints it."""
        usage, cost = result["usage"], result["cost"]
        figures = {
            "llm_calls": cost["llm_calls"],
            "prompt_tokens": usage["prompt_tokens"],
            "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"],
            "computed_tokens": cost["computed_tokens"],
            "completion_tokens": usage["completion_tokens"],
            "seconds": cost["seconds"],
        }
        if (run := result.get("run")) is not None:
            by_rules = any(repair.startswith("Planned by rules") for repair in run["repairs"])
            figures |= {"steps": len(run["steps"]), "steps_failed": sum(not step["ok"] for step in run["steps"])}
            figures |= {"planned_by_rules": float(by_rules)}
        for name, value in figures.items():
            self._figures.setdefault(name, []).append(float(value))

    def medians(self) -> dict[str, float]:
        """By `median_<figure>`; of failed steps and of plans made without the model, how many there were."""
        counted = {"steps_failed", "planned_by_rules"}
        sums = {name: sum(self._figures[name]) for name in sorted(counted & self._figures.keys())}
        rest = {f"median_{n}": statistics.median(v) for n, v in self._figures.items() if n not in counted}
        return rest | sums
