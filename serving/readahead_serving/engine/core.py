"""The engine without its process: requests in, steps, outputs out."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Protocol

import torch
from torch import Tensor

from readahead_serving.engine.grammar import Constraint, structure_of
from readahead_serving.engine.grammar_queue import CompileConstraint, GrammarQueue
from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.messages import SequenceOutput
from readahead_serving.engine.pack_builds import BuildProgress, PackBuilds
from readahead_serving.engine.prompt_logprobs import rows_to_choose, tell_prompts
from readahead_serving.engine.request import (
    DEADLINE_EXCEEDED,
    EngineStats,
    FinishReason,
    GenerationRequest,
    TokenLogprobs,
)
from readahead_serving.engine.sampling import Chosen, TokenChooser, choose_tokens, verify_draft
from readahead_serving.engine.scheduler.loop import Scheduler
from readahead_serving.engine.scheduler.plan import Chunk, StepPlan
from readahead_serving.engine.sequence import Sequence
from readahead_serving.engine.speculate import NO_SPECULATION, Drafter, Speculation


class Model(Protocol):
    """What computes logits: `Executor`, or something simpler in tests of the engine alone."""

    def execute(self, plan: StepPlan) -> Tensor:
        """Logits, (R, vocab) float32, of each chunk's last `num_rows` tokens, in the plan's order."""
        ...


class EngineCore:
    """Holds every request there is and takes them all one step further at a time.

    Each request added gets exactly one output with a finish reason: "stop" (an end token or a complete grammar),
    "length", "abort" (asked for, or its deadline passed, which `error` tells), "refused" (its grammar can't be
    followed) or "error". No request's fault is raised.

    Args:
        model: Computes logits.
        pool: The KV blocks that `scheduler` hands out.
        scheduler: Decides what each step computes.
        compile_constraint: Makes the constraint that a request asks for, in a thread beside the steps.
        eos_ids: Tokens that end a completion.
        speculation: How much greedy requests may run ahead.
        builds: Lays packs out; None where none are built.
    """

    def __init__(
        self,
        model: Model,
        pool: BlockPool,
        scheduler: Scheduler,
        compile_constraint: CompileConstraint,
        eos_ids: Collection[int],
        speculation: Speculation = NO_SPECULATION,
        builds: PackBuilds | None = None,
    ) -> None:
        self._model = model
        self._pool = pool
        self._scheduler = scheduler
        self._grammars = GrammarQueue(compile_constraint)
        self._eos_ids = frozenset(eos_ids)
        self._sequences: dict[str, Sequence] = {}
        self._choosers: dict[str, TokenChooser] = {}
        self._drafter = Drafter(speculation)
        self._builds = builds
        self._outputs: list[SequenceOutput] = []
        self._started: dict[str, float] = {}  # requests whose first step is not yet reported
        self._steps = self._received = self._prompt_tokens = self._completion_tokens = self._aborted = 0

    @property
    def has_work(self) -> bool:
        return bool(self._sequences) or self.is_compiling

    @property
    def is_compiling(self) -> bool:
        """Whether requests wait for their grammars, which another thread compiles."""
        return len(self._grammars) > 0

    @property
    def can_step(self) -> bool:
        """Whether a step would compute anything now."""
        return bool(self._sequences)

    def add(self, request: GenerationRequest) -> None:
        """Queues a request, behind the compiling of its grammar if it has one. Its id must be in use by no other."""
        assert request.request_id not in self._sequences, request.request_id
        self._received += 1
        if structure_of(request.sampling) is None:
            self._join(request, None)
        else:
            self._grammars.add(request)

    def abort(self, request_id: str) -> None:
        """Ends a request now, wherever it is. An unknown id is one that has ended already."""
        if (sequence := self._sequences.get(request_id)) is not None:
            self._abort(sequence, None)
        elif self._grammars.remove(request_id):
            self._abort_unjoined(request_id, None)

    def attach_pack(self, pack_id: str, salt: str, kv: PackKV) -> None:
        """Offers a pack to all prompts of the salt that begin with its tokens, from the next step on.

        It costs its bytes once, however many read it, and counts against no budget here. The id must be free.
        """
        self._scheduler.cache.packs.attach(pack_id, salt, kv)

    def detach_pack(self, pack_id: str) -> bool:
        """Offers a pack no longer. An unknown id has been detached already.

        Returns:
            Whether its memory is given up now; otherwise it is when the last request that reads it ends.
        """
        packs = self._scheduler.cache.packs
        return packs.detach(pack_id) if pack_id in packs else True

    def build_pack(self, pack_id: str, salt: str, token_ids: list[int]) -> None:
        """Computes the KV of a run of tokens behind all requests; attached packs that it begins with are made use of.

        Ends like a request of that id, with one output: "length" when `export_pack` can be called, "abort" after
        `abort(pack_id)`, or "error" if the cache can never hold it.
        """
        assert self._builds is not None
        if len(token_ids) > self._pool.tokens_total:
            room = f"the KV cache of {self._pool.tokens_total} tokens"
            self._outputs.append(_end(pack_id, "error", f"A pack of {len(token_ids)} tokens does not fit {room}."))
            return
        self.add(self._builds.begin(pack_id, salt, token_ids))
        self._builds.note(self._sequences[pack_id])

    def export_pack(self, pack_id: str) -> PackKV:
        """Hands over a pack that has been built, once."""
        assert self._builds is not None
        return self._builds.take(pack_id)

    def build_progress(self) -> list[BuildProgress]:
        """How far the packs under construction are."""
        return self._builds.progress() if self._builds is not None else []

    def step(self) -> None:
        """Takes all requests one step further; without any it does nothing but prove that no KV is lost.

        Raises:
            KVPoolError: KV is lost: a bug.
        """
        for request, constraint, problem in self._grammars.take():
            if problem is None:
                self._join(request, constraint)
            else:
                self._outputs.append(_end(request.request_id, "refused", problem))
        self._expire(time.time())
        self._drafter.propose(self._sequences.values(), self._scheduler.num_running)
        plan = self._scheduler.schedule()
        if not plan.chunks:
            assert not self._sequences, "requests wait and none can run"
            if not self.is_compiling:
                self._scheduler.check_integrity()
            return
        self._note_starts(plan)
        began = time.perf_counter()
        load = plan.load
        logits = self._model.execute(plan)
        self._steps += 1
        self._commit(plan)
        choices = rows_to_choose(logits, plan)
        self._tell_prompts(logits, plan)
        self._choose(choices, [chunk for chunk in plan.chunks if chunk.catches_up])
        self._settle(plan)
        self._scheduler.observe(load, time.perf_counter() - began)

    def take_outputs(self) -> list[SequenceOutput]:
        """All outputs since the last call."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def stats(self) -> EngineStats:
        cache = self._scheduler.cache
        return EngineStats(
            steps=self._steps,
            running=self._scheduler.num_running,
            waiting=self._scheduler.num_waiting + len(self._grammars),
            kv_tokens_used=cache.tokens_used,
            kv_tokens_cached=cache.tokens_cached,
            kv_tokens_total=self._pool.tokens_total,
            prompt_tokens_computed=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            aborted=self._aborted,
            preempted=self._scheduler.preemptions,
            prefix_hit_tokens=cache.counts.prefix_tokens,
            pack_hit_tokens=cache.counts.pack_tokens,
            resumed_tokens=cache.counts.resumed_tokens,
            kv_blocks_evicted=cache.evictions,
            pack_bytes=cache.packs.nbytes,
            draft_tokens=self._drafter.proposed,
            draft_tokens_accepted=self._drafter.accepted,
            received=self._received,
            backlog_s=self._scheduler.backlog_s(),
            costs=self._scheduler.costs,
            integrity_checks=self._scheduler.integrity_checks,
        )

    def _join(self, request: GenerationRequest, constraint: Constraint | None) -> None:
        sequence = Sequence(request)
        self._sequences[request.request_id] = sequence
        self._choosers[request.request_id] = TokenChooser(request.sampling, constraint)
        self._scheduler.add(sequence)

    def _expire(self, now: float) -> None:
        for sequence in list(self._sequences.values()):
            if _is_late(sequence.request, now):
                self._abort(sequence, DEADLINE_EXCEEDED)
        for request in self._grammars.requests:
            if _is_late(request, now):
                self._grammars.remove(request.request_id)
                self._abort_unjoined(request.request_id, DEADLINE_EXCEEDED)

    def _abort_unjoined(self, request_id: str, error: str | None) -> None:
        self._aborted += 1
        self._outputs.append(_end(request_id, "abort", error))

    def _abort(self, sequence: Sequence, error: str | None) -> None:
        self._aborted += 1
        self._finish(sequence, [], "abort", error)

    def _note_starts(self, plan: StepPlan) -> None:
        now = time.monotonic()
        for chunk in plan.chunks:
            if not chunk.sequence.is_started:
                chunk.sequence.is_started = True
                self._started[chunk.sequence.request_id] = now

    def _commit(self, plan: StepPlan) -> None:
        for chunk in plan.chunks:
            sequence = chunk.sequence
            sequence.num_computed = min(chunk.end, sequence.num_tokens)  # what is drafted counts once it is confirmed
            computed = min(chunk.end, sequence.num_prompt)
            # a preempted sequence computes its prompt again: that is not counted twice
            self._prompt_tokens += max(0, computed - sequence.prompt_computed)
            sequence.prompt_computed = max(sequence.prompt_computed, computed)

    def _settle(self, plan: StepPlan) -> None:
        """Offers what was computed for reuse, once the logits have shown it sound, and ends builds."""
        for chunk in plan.chunks:
            sequence = chunk.sequence
            if sequence.request_id in self._sequences:
                self._scheduler.cache.publish(sequence)
                if sequence.is_build and sequence.num_pending == 0:
                    self._finish_build(sequence)

    def _finish_build(self, sequence: Sequence) -> None:
        assert self._builds is not None
        self._builds.finish(sequence)
        self._finish(sequence, [], "length")

    def _tell_prompts(self, logits: Tensor, plan: StepPlan) -> None:
        for chunk, told in list(tell_prompts(logits, plan)):
            chunk.sequence.prompt_told = chunk.end
            self._emit(chunk.sequence, [], prompt_logprobs=told)

    def _choose(self, logits: Tensor, chunks: list[Chunk]) -> None:
        choosers = [self._choosers[chunk.sequence.request_id] for chunk in chunks]
        for chunk, chooser, chosen in zip(chunks, choosers, self._chosen(logits, chunks, choosers), strict=True):
            if chooser.structure_error is not None:
                self._finish(chunk.sequence, [], "refused", _unfollowed(chooser.structure_error))
            elif chosen.tokens:
                self._drafter.confirm(chunk.sequence, len(chosen.tokens) - 1)
                self._append(chunk.sequence, chooser, chosen)
            else:
                self._finish(chunk.sequence, [], "error", "the model gave no finite logits")

    def _chosen(self, logits: Tensor, chunks: list[Chunk], choosers: list[TokenChooser]) -> list[Chosen]:
        if all(chunk.num_choices == 1 for chunk in chunks):
            return choose_tokens(logits, choosers)
        parts = torch.split(logits, [chunk.num_choices for chunk in chunks])
        return [
            choose_tokens(part, [chooser])[0]
            if chunk.num_choices == 1
            else verify_draft(part, chooser, chunk.sequence.draft, () if chooser.params.ignore_eos else self._eos_ids)
            for part, chunk, chooser in zip(parts, chunks, choosers, strict=True)
        ]

    def _append(self, sequence: Sequence, chooser: TokenChooser, chosen: Chosen) -> None:
        last = chosen.tokens[-1]
        ends = last in self._eos_ids and not sequence.request.sampling.ignore_eos
        accepted = chosen.tokens if ends else [*chosen.tokens, *chooser.accept(last)]
        if chooser.structure_error is not None:
            self._finish(sequence, [], "refused", _unfollowed(chooser.structure_error))
            return
        tokens = accepted[: sequence.num_wanted]
        whole = len(tokens) == len(accepted)
        complete = whole and chooser.constraint is not None and chooser.constraint.is_complete
        sequence.token_ids.extend(tokens)
        self._completion_tokens += len(tokens)
        logprobs = chosen.logprobs[: len(tokens)]
        if (ends and whole) or complete:
            self._finish(sequence, tokens, "stop", logprobs=logprobs)
        elif sequence.num_wanted == 0:
            self._finish(sequence, tokens, "length", logprobs=logprobs)
        else:
            self._emit(sequence, tokens, logprobs=logprobs)

    def _finish(
        self,
        sequence: Sequence,
        tokens: list[int],
        reason: FinishReason,
        error: str | None = None,
        logprobs: list[TokenLogprobs] | None = None,
    ) -> None:
        # a pack holds a copy of what its build computed, so that the cache need not
        self._scheduler.remove(sequence, keep=reason != "error" and not sequence.is_build)
        if self._builds is not None:
            self._builds.forget(sequence)
        del self._sequences[sequence.request_id], self._choosers[sequence.request_id]
        self._drafter.forget(sequence)
        self._emit(sequence, tokens, reason, error, logprobs)

    def _emit(
        self,
        sequence: Sequence,
        tokens: list[int],
        reason: FinishReason | None = None,
        error: str | None = None,
        logprobs: list[TokenLogprobs] | None = None,
        prompt_logprobs: list[TokenLogprobs] | None = None,
    ) -> None:
        started = self._started.pop(sequence.request_id, None)
        self._outputs.append(
            SequenceOutput(
                request_id=sequence.request_id,
                token_ids=tokens,
                finish_reason=reason,
                error=error,
                logprobs=logprobs or [],
                prompt_logprobs=prompt_logprobs or [],
                started_at=started,
                cached_tokens=sequence.num_cached if started is not None else None,
            )
        )


def _end(request_id: str, reason: FinishReason, error: str | None) -> SequenceOutput:
    return SequenceOutput(request_id=request_id, token_ids=[], finish_reason=reason, error=error)


def _unfollowed(error: str) -> str:
    return f"No completion can be held to what was asked for: {error}. Simplify the schema, expression or grammar."


def _is_late(request: GenerationRequest, now: float) -> bool:
    return request.deadline is not None and request.deadline <= now
