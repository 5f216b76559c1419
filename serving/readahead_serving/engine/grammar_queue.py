"""Compiles what completions must satisfy beside the engine's steps: a large schema takes half a second."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from readahead_serving.engine.grammar import Constraint
from readahead_serving.engine.request import GenerationRequest, SamplingParams
from readahead_serving.errors import RequestRefused

CompileConstraint = Callable[[SamplingParams], Constraint | None]


class Compiled(NamedTuple):
    """A request that can join the batch, now that its grammar is ready."""

    request: GenerationRequest
    constraint: Constraint | None
    problem: str | None = None
    """Why it can't after all."""


class GrammarQueue:
    """Requests that wait for their grammar, in the order they came; llguidance compiles without the interpreter's lock.

    Its length is bounded by whoever bounds the requests in the engine.

    Args:
        compile_constraint: Makes a request's constraint, or raises `RequestRefused`. One thread calls it.
    """

    def __init__(self, compile_constraint: CompileConstraint) -> None:
        self._compile = compile_constraint
        self._thread = ThreadPoolExecutor(1, "grammar")
        self._waiting: deque[tuple[GenerationRequest, Future[Constraint | None]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def requests(self) -> list[GenerationRequest]:
        return [request for request, _ in self._waiting]

    def add(self, request: GenerationRequest) -> None:
        self._waiting.append((request, self._thread.submit(self._compile, request.sampling)))

    def remove(self, request_id: str) -> bool:
        """Forgets a request; what is being compiled already is compiled to its end. Returns whether it was here."""
        found = next((entry for entry in self._waiting if entry[0].request_id == request_id), None)
        if found is None:
            return False
        self._waiting.remove(found)
        found[1].cancel()
        return True

    def take(self) -> list[Compiled]:
        """The requests whose grammars have been compiled since the last call. Waits for none."""
        done: list[Compiled] = []
        while self._waiting and self._waiting[0][1].done():
            request, constraint = self._waiting.popleft()
            try:
                done.append(Compiled(request, constraint.result()))
            except RequestRefused as error:
                done.append(Compiled(request, None, error.message))
        return done
