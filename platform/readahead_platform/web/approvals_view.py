"""Calls that wait for a word, below the steps of the run: what would be called, and two buttons."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from readahead_platform.web.elements import block, text
from readahead_platform.web.turns import Approval, Turn
from readahead_platform.web.wording import approval_line, arguments_text, patience_line, verdict_line

Decide = Callable[[Turn, Approval, bool], Awaitable[bool]]
"""Whether the call waits no longer."""


class ApprovalsView:
    """One card for each call; it stays when it is decided, and says how."""

    def __init__(self, turn: Turn, decide: Decide) -> None:
        self._turn = turn
        self._decide = decide
        self._cards: list[_Card] = []
        self._list = block("ra-approvals")

    def refresh(self) -> None:
        with self._list:
            for approval in self._turn.approvals[len(self._cards) :]:
                self._cards.append(_Card(self._turn, approval, self._decide))
        for card in self._cards:
            card.refresh()
        self._list.visible = bool(self._cards)


class _Card:
    """Redrawn only when it changes: what has the keyboard's focus keeps it."""

    def __init__(self, turn: Turn, approval: Approval, decide: Decide) -> None:
        self._turn = turn
        self._approval = approval
        self._decide = decide
        line = approval_line(approval.asked)
        with block("ra-approval", "section").props('role="group"') as root:
            root.props["aria-label"] = line
            text(line, "ra-approval__line").props('role="alert"')
            with block("ra-approval__arguments", "pre").props('tabindex="0" aria-label="What it would be called with"'):
                ui.label(arguments_text(approval.asked.arguments)).classes("ra-inline")
            self._buttons = block("ra-approval__buttons")
            with self._buttons:
                self._button("Allow", "main", approve=True)
                self._button("Deny", "quiet", approve=False)
                text(patience_line(approval.asked.timeout_s), "ra-approval__patience", "span")
            self._verdict = ui.label().classes("ra-approval__verdict").props('role="status" tabindex="-1"')
        self.refresh()

    def _button(self, label: str, kind: str, *, approve: bool) -> None:
        button = ui.button(label, on_click=lambda: self._on_click(approve), color=None)
        button.props("unelevated no-caps").classes(f"ra-button ra-button--{kind}")

    def refresh(self) -> None:
        verdict = verdict_line(self._approval, ended=self._turn.done)
        self._buttons.visible = not verdict
        self._verdict.text, self._verdict.visible = verdict, bool(verdict)

    async def _on_click(self, approve: bool) -> None:
        self._buttons.visible = False  # at once: a word is given once
        self._buttons.visible = not await self._decide(self._turn, self._approval, approve)
