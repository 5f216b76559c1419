"""What an evaluation tells of the costs of its answers."""

from __future__ import annotations

from typing import Any

from readahead_platform.commands.answer_costs import AnswerCosts


def answered(computed: int, *, repairs: list[str] | None = None, ok: bool = True) -> dict[str, Any]:
    usage = {"prompt_tokens": computed + 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 50}}
    result: dict[str, Any] = {
        "usage": usage,
        "cost": {"llm_calls": 1, "computed_tokens": computed, "seconds": computed / 10},
    }
    return result if repairs is None else {**result, "run": {"repairs": repairs, "steps": [{"ok": ok}, {"ok": True}]}}


def test_costs_are_told_by_their_medians() -> None:
    costs = AnswerCosts()
    for computed in (10, 90, 20):
        costs.add(answered(computed))
    told = costs.medians()
    assert (told["median_computed_tokens"], told["median_prompt_tokens"], told["median_seconds"]) == (20, 70, 2)
    assert "median_steps" not in told, "answers without a run have no steps"


def test_what_went_wrong_in_runs_is_counted_and_not_averaged_away() -> None:
    costs = AnswerCosts()
    for ok, repairs in ((True, []), (False, ["Planned by rules: no time."]), (True, ["1 step was dropped."])):
        costs.add(answered(10, repairs=repairs, ok=ok))
    told = costs.medians()
    assert (told["steps_failed"], told["planned_by_rules"], told["median_steps"]) == (1, 1, 2)


def test_no_answers_cost_nothing() -> None:
    assert AnswerCosts().medians() == {}
