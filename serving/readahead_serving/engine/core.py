"""The engine without its process: requests in, steps, outputs out."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Protocol

from torch import Tensor

from readahead_serving.engine.grammar import Constraint
from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.messages import SequenceOutput
from readahead_serving.engine.request import EngineStats, FinishReason, GenerationRequest
from readahead_serving.engine.sampling import TokenChooser, choose_tokens
from readahead_serving.engine.scheduler.loop import Scheduler
from readahead_serving.engine.scheduler.plan import StepPlan
from readahead_serving.engine.sequence import Sequence

DEADLINE_EXCEEDED = "deadline exceeded"


class Model(Protocol):
    """What computes logits: `Executor`, or something simpler in tests of the engine alone."""

    def execute(self, plan: StepPlan) -> Tensor:
        """Logits, (R, vocab) float32, of the chunks that catch up, in the plan's order."""
        ...


class EngineCore:
    """Holds every request there is and takes them all one step further at a time.

    Each request added gets exactly one output with a finish reason: "stop" (an end token or a complete grammar),
    "length", "abort" (asked for, or its deadline passed, which `error` tells) or "error". No request's fault is raised.

    Args:
        model: Computes logits.
        pool: The KV blocks that `scheduler` hands out.
        scheduler: Decides what each step computes.
        compile_schema: Makes the constraint of a JSON schema.
        eos_ids: Tokens that end a completion.
    """

    def __init__(
        self,
        model: Model,
        pool: BlockPool,
        scheduler: Scheduler,
        compile_schema: Callable[[str], Constraint],
        eos_ids: Collection[int],
    ) -> None:
        self._model = model
        self._pool = pool
        self._scheduler = scheduler
        self._compile_schema = compile_schema
        self._eos_ids = frozenset(eos_ids)
        self._sequences: dict[str, Sequence] = {}
        self._choosers: dict[str, TokenChooser] = {}
        self._outputs: list[SequenceOutput] = []
        self._started: dict[str, float] = {}  # requests whose first step is not yet reported
        self._steps = self._prompt_tokens = self._completion_tokens = self._aborted = 0

    @property
    def has_work(self) -> bool:
        return bool(self._sequences)

    def add(self, request: GenerationRequest) -> None:
        """Queues a request. Its id must be in use by no other."""
        assert request.request_id not in self._sequences, request.request_id
        schema = request.sampling.json_schema
        chooser = TokenChooser(request.sampling, self._compile_schema(schema) if schema is not None else None)
        if chooser.constraint is not None and (error := chooser.constraint.error):
            self._outputs.append(_end(request.request_id, "error", f"The JSON schema cannot be used: {error}"))
            return
        sequence = Sequence(request)
        self._sequences[request.request_id] = sequence
        self._choosers[request.request_id] = chooser
        self._scheduler.add(sequence)

    def abort(self, request_id: str) -> None:
        """Ends a request now, wherever it is. An unknown id is one that has ended already."""
        if (sequence := self._sequences.get(request_id)) is not None:
            self._abort(sequence, None)

    def step(self) -> None:
        """Takes all requests one step further; without any it does nothing but prove that no KV is lost.

        Raises:
            KVPoolError: KV is lost: a bug.
        """
        self._expire(time.time())
        plan = self._scheduler.schedule()
        if not plan.chunks:
            assert not self._sequences, "requests wait and none can run"
            self._scheduler.check_integrity()
            return
        self._note_starts(plan)
        began = time.perf_counter()
        load = plan.load
        logits = self._model.execute(plan)
        self._steps += 1
        self._commit(plan)
        self._choose(logits, [chunk.sequence for chunk in plan.chunks if chunk.catches_up])
        self._scheduler.observe(load, time.perf_counter() - began)

    def take_outputs(self) -> list[SequenceOutput]:
        """All outputs since the last call."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def stats(self) -> EngineStats:
        return EngineStats(
            steps=self._steps,
            running=self._scheduler.num_running,
            waiting=self._scheduler.num_waiting,
            kv_tokens_used=self._pool.tokens_used,
            kv_tokens_total=self._pool.tokens_total,
            prompt_tokens_computed=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            aborted=self._aborted,
            preempted=self._scheduler.preemptions,
            backlog_s=self._scheduler.backlog_s(),
            costs=self._scheduler.costs,
            integrity_checks=self._scheduler.integrity_checks,
        )

    def _expire(self, now: float) -> None:
        for sequence in list(self._sequences.values()):
            if sequence.request.deadline is not None and sequence.request.deadline <= now:
                self._abort(sequence, DEADLINE_EXCEEDED)

    def _abort(self, sequence: Sequence, error: str | None) -> None:
        self._aborted += 1
        self._finish(sequence, [], "abort", error)

    def _note_starts(self, plan: StepPlan) -> None:
        now = time.monotonic()
        for chunk in plan.chunks:
            if chunk.start == 0 and chunk.sequence.preemptions == 0:
                self._started[chunk.sequence.request_id] = now

    def _commit(self, plan: StepPlan) -> None:
        for chunk in plan.chunks:
            sequence = chunk.sequence
            sequence.num_computed = chunk.end
            computed = min(chunk.end, sequence.num_prompt)
            # a preempted sequence computes its prompt again: that is not counted twice
            self._prompt_tokens += max(0, computed - sequence.prompt_computed)
            sequence.prompt_computed = max(sequence.prompt_computed, computed)

    def _choose(self, logits: Tensor, sequences: list[Sequence]) -> None:
        choosers = [self._choosers[sequence.request_id] for sequence in sequences]
        for sequence, chooser, token in zip(sequences, choosers, choose_tokens(logits, choosers), strict=True):
            if token is None:
                problem = chooser.constraint.error if chooser.constraint is not None else None
                self._finish(sequence, [], "error", problem or "the model gave no finite logits")
            else:
                self._append(sequence, chooser, token)

    def _append(self, sequence: Sequence, chooser: TokenChooser, token: int) -> None:
        ends = token in self._eos_ids and not sequence.request.sampling.ignore_eos
        accepted = [token] if ends else [token, *chooser.accept(token)]
        tokens = accepted[: sequence.num_wanted]
        complete = chooser.constraint is not None and chooser.constraint.is_complete and len(tokens) == len(accepted)
        sequence.token_ids.extend(tokens)
        self._completion_tokens += len(tokens)
        if ends or complete:
            self._finish(sequence, tokens, "stop")
        elif sequence.num_wanted == 0:
            self._finish(sequence, tokens, "length")
        else:
            self._emit(sequence, tokens, None, None)

    def _finish(self, sequence: Sequence, tokens: list[int], reason: FinishReason, error: str | None = None) -> None:
        self._scheduler.remove(sequence)
        del self._sequences[sequence.request_id], self._choosers[sequence.request_id]
        self._emit(sequence, tokens, reason, error)

    def _emit(self, sequence: Sequence, tokens: list[int], reason: FinishReason | None, error: str | None) -> None:
        started = self._started.pop(sequence.request_id, None)
        self._outputs.append(
            SequenceOutput(
                request_id=sequence.request_id,
                token_ids=tokens,
                finish_reason=reason,
                error=error,
                started_at=started,
            )
        )


def _end(request_id: str, reason: FinishReason, error: str) -> SequenceOutput:
    return SequenceOutput(request_id=request_id, token_ids=[], finish_reason=reason, error=error)
