"""An agent's steps as a timeline that folds away."""

from __future__ import annotations

from nicegui import ui

from readahead_platform.web.elements import block, text
from readahead_platform.web.turns import Step, Turn
from readahead_platform.web.wording import steps_line, tool_name

_ICONS = {None: "more_horiz", True: "check", False: "close"}
_STATES = {None: "running", True: "done", False: "failed"}


class StepsView:
    """Hidden until the run has a step; open while it runs."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._drawn: tuple[object, ...] = ()
        with block("ra-steps", "details") as self._details:
            with block("ra-steps__summary", "summary"):
                ui.icon("account_tree").classes("ra-steps__icon")
                self._summary = ui.label()
                ui.icon("expand_more").classes("ra-steps__more")
            self._list = block("ra-steps__list", "ol")
        self._details.visible = False

    def refresh(self) -> None:
        turn = self._turn
        planning = turn.route is not None and turn.route.chosen == "agent" and not turn.done
        drawn = (
            planning,
            len(turn.steps),
            sum(step.ok is not None for step in turn.steps),
            len(turn.remarks),
            turn.done,
        )
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self._details.visible = planning or bool(turn.steps or turn.remarks)
        self._details.props["open"] = not turn.done
        finished = [step.elapsed_ms for step in turn.steps if step.ok is not None]
        under_way = "Working in steps" if turn.steps else "Making a plan"
        self._summary.text = steps_line(finished) if turn.done else under_way
        self._list.clear()
        with self._list:
            for line in turn.remarks:
                self._remark(line)
            for step in turn.steps:
                self._step(step)

    def _remark(self, line: str) -> None:
        with block("ra-step ra-step--remark", "li"):
            ui.icon("lightbulb").classes("ra-step__icon")
            text(line, "ra-step__text")

    def _step(self, step: Step) -> None:
        with block(f"ra-step ra-step--{_STATES[step.ok]}", "li"):
            ui.icon(_ICONS[step.ok]).classes("ra-step__icon").props(f'aria-label="{_STATES[step.ok]}"')
            with block("ra-step__text"):
                text(tool_name(step.tool) + (f": {step.about}" if step.about else ""), "ra-step__name")
                if step.summary:
                    text(step.summary, "ra-step__result")
            if step.ok is not None:
                text(f"{step.elapsed_ms / 1000:.1f} s", "ra-step__time", "span")
