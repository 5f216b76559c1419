"""Progress of long work: a bar on a terminal, JSON lines for programs, a line a stage in a log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import typer

from readahead_platform.commands.output import is_terminal, print_json

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressView(AbstractContextManager["ProgressView"], Protocol):
    """Shows how far named pieces of work have come. May be called from any thread."""

    def update(self, name: str, stage: str, done: int, total: int) -> None:
        """`total` is 0 while it is unknown."""
        ...


def progress_view(*, as_json: bool) -> ProgressView:
    """The view that fits where the output goes."""
    if as_json:
        return Lines(lambda name, stage, done, total: print_json(_report(name, stage, done, total)), every_step=True)
    if is_terminal():
        return Bars()
    return Lines(lambda name, stage, _done, _total: typer.echo(f"{name}: {stage}", err=True), every_step=False)


def _report(name: str, stage: str, done: int, total: int) -> dict[str, object]:
    return {"progress": {"name": name, "stage": stage, "done": done, "total": total}}


@dataclass
class Lines:
    """One line whenever the stage changes, or with `every_step` whenever anything does."""

    write: Callable[[str, str, int, int], None]
    every_step: bool
    _last: dict[str, tuple[object, ...]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def update(self, name: str, stage: str, done: int, total: int) -> None:
        now = (stage, done, total) if self.every_step else (stage,)
        if self._last.get(name) != now:
            self._last[name] = now
            self.write(name, stage, done, total)


class Bars:
    """One bar for each name, on stderr."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[stage]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def update(self, name: str, stage: str, done: int, total: int) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, stage=stage, total=None)
        self._progress.update(self._tasks[name], completed=done, total=total or None, stage=stage)
