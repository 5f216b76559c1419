"""Schemas, expressions and grammars: what can be followed is, what can't is refused, and no step waits for either."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import llguidance
import pytest

from readahead_serving.backends.structures import TOO_COSTLY, StructureChecks
from readahead_serving.engine.core import EngineCore
from readahead_serving.engine.grammar import CACHED_BYTES, Constraint, GrammarCompiler, Structure, find_problem
from readahead_serving.engine.grammar_queue import CompileConstraint
from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.messages import SequenceOutput
from readahead_serving.engine.request import DEADLINE_EXCEEDED, GenerationRequest, SamplingParams
from readahead_serving.engine.scheduler.loop import Scheduler
from readahead_serving.errors import EngineUnavailable, RequestRefused
from readahead_serving.model.tokenizer import Tokenizer
from tests.serving.test_engine_core import CountingModel

VOCAB = 49_152
ENDLESS = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"], "additionalProperties": False}
UNFOLLOWABLE: dict[str, Any] = {
    "itself": {"$ref": "#"},
    "nesting without end": ENDLESS,
    "two thousand optional properties": {
        "type": "object",
        "properties": {f"p{n}": {"type": "integer"} for n in range(2000)},
    },
    "a contradiction": {"type": "integer", "minimum": 5, "maximum": 3},
    "an empty choice": {"enum": []},
}
COSTLY = {"allOf": [{"type": "string", "pattern": f"^.*a.{{{n}}}.*$"} for n in range(30)]}


@pytest.fixture(scope="module")
def compiler(smollm2_tokenizer: Tokenizer) -> GrammarCompiler:
    return GrammarCompiler(smollm2_tokenizer.to_json(), VOCAB, sorted(smollm2_tokenizer.eos_ids))


def sampling(schema: Any, **values: Any) -> SamplingParams:
    return SamplingParams(max_tokens=8, temperature=0, json_schema=json.dumps(schema), **values)


@pytest.mark.parametrize("name", UNFOLLOWABLE)
def test_a_schema_that_no_completion_can_follow_is_found_out_before_it_reaches_the_engine(name: str) -> None:
    assert find_problem(Structure("json_schema", json.dumps(UNFOLLOWABLE[name])))


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "integer", "minimum": 10**300}, "bounds of at most 17 digits"),
        ({"type": "number", "maximum": -(10**300)}, "bounds of at most 17 digits"),
        ({"const": 10**400}, "a number that is out of range"),
    ],
)
def test_a_number_that_no_grammar_holds_is_told_in_the_words_of_schemas(schema: Any, told: str) -> None:
    problem = find_problem(Structure("json_schema", json.dumps(schema)))
    assert problem is not None and told in problem and "regex" not in problem


def test_bounds_of_seventeen_digits_are_followed() -> None:
    schema = {"type": "integer", "minimum": -(10**17 - 1), "maximum": 10**17 - 1}
    assert find_problem(Structure("json_schema", json.dumps(schema))) is None


def test_a_large_schema_that_can_be_followed_passes() -> None:
    names = [f"p{n}" for n in range(1900)]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "required": names}
    assert find_problem(Structure("json_schema", json.dumps(schema))) is None


def test_a_structure_is_compiled_once_and_its_completions_do_not_meet(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    real = llguidance.LLMatcher

    class Counting:
        grammar_from_regex = real.grammar_from_regex

        def __new__(cls, tokenizer: Any, text: str, **limits: Any) -> Any:
            compiled.append(text)
            return real(tokenizer, text, **limits)

    monkeypatch.setattr("readahead_serving.engine.grammar.LLMatcher", Counting)
    asked = SamplingParams(max_tokens=1, regex="only here (yes|no)")
    first, second = compiler.compile(asked), compiler.compile(asked)
    assert first is not None and second is not None
    assert len(compiled) == 1
    before = second.allowed().nonzero()[0].tolist()
    first.accept(int(first.allowed().nonzero()[0][0]))
    assert second.allowed().nonzero()[0].tolist() == before
    for number in range(6):  # each a fifth of what is kept
        compiler.compile(SamplingParams(max_tokens=1, regex=f"(?:{number}|{'x' * (CACHED_BYTES // 5)})"))
    compiler.compile(asked)
    assert len(compiled) == 8, "the oldest has been given up"


def test_a_model_without_an_end_of_text_follows_grammars_too(smollm2_tokenizer: Tokenizer) -> None:
    constraint = GrammarCompiler(smollm2_tokenizer.to_json(), VOCAB, []).compile(
        SamplingParams(max_tokens=9, regex="ab*")
    )
    assert constraint is not None
    constraint.accept(smollm2_tokenizer.encode("a", allow_special=False)[0])
    for token in constraint.allowed().nonzero()[0]:
        assert set(smollm2_tokenizer.token_bytes(int(token))) == {ord("b")}, "nothing but more of the text"
    assert not constraint.is_complete


# -- in the engine


class Engine:
    def __init__(self, compile_constraint: CompileConstraint) -> None:
        pool = BlockPool(64, 4)
        scheduler = Scheduler(pool, max_running=4, prefill_chunk_tokens=8)
        self.core = EngineCore(CountingModel(VOCAB), pool, scheduler, compile_constraint, [0])

    def add(self, name: str, params: SamplingParams, deadline: float | None = None) -> None:
        self.core.add(GenerationRequest(request_id=name, prompt_tokens=[5], sampling=params, deadline=deadline))

    def step(self) -> dict[str, SequenceOutput]:
        self.core.step()
        return {output.request_id: output for output in self.core.take_outputs()}

    def end_of(self, name: str) -> SequenceOutput:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            output = self.step().get(name)
            if output is not None and output.finish_reason is not None:
                return output
        raise AssertionError(f"{name} does not end")


@pytest.mark.parametrize("name", UNFOLLOWABLE)
def test_a_completion_that_its_schema_makes_impossible_is_refused_and_never_called_done(
    name: str, compiler: GrammarCompiler
) -> None:
    engine = Engine(compiler.compile)
    engine.add("impossible", sampling(UNFOLLOWABLE[name]))
    end = engine.end_of("impossible")
    assert end.finish_reason == "refused"
    assert end.error
    engine.add("sound", SamplingParams(max_tokens=2, temperature=0))
    assert engine.end_of("sound").finish_reason == "length"


class SlowCompiler:
    """Compiles nothing until it is told to."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def compile(self, params: SamplingParams) -> Constraint | None:
        if params.json_schema is not None:
            self.begun.set()
            assert self.go_on.wait(60)
        return None


@contextmanager
def waiting_for_its_grammar(deadline: float | None = None) -> Iterator[tuple[Engine, SlowCompiler]]:
    compiler = SlowCompiler()
    engine = Engine(compiler.compile)
    try:
        engine.add("bound", sampling({}), deadline)
        assert compiler.begun.wait(60)
        yield engine, compiler
    finally:
        compiler.go_on.set()


def test_others_step_on_while_a_grammar_is_compiled_and_its_request_joins_them_after_it() -> None:
    with waiting_for_its_grammar() as (engine, compiler):
        engine.add("free", SamplingParams(max_tokens=100, temperature=0))
        for token in range(6, 16):
            assert {name: output.token_ids for name, output in engine.step().items()} == {"free": [token]}
        assert (engine.core.stats().running, engine.core.stats().waiting) == (1, 1)
        compiler.go_on.set()
        assert engine.end_of("bound").finish_reason == "length"
        assert engine.core.has_work, "the free one still runs"


def test_a_request_that_waits_for_its_grammar_can_be_given_up() -> None:
    with waiting_for_its_grammar() as (engine, _):
        assert engine.core.has_work and not engine.core.can_step
        engine.core.abort("bound")
        [output] = engine.core.take_outputs()
        assert (output.request_id, output.finish_reason) == ("bound", "abort")
        assert not engine.core.has_work
        assert engine.core.stats().aborted == 1


def test_a_deadline_holds_while_a_grammar_is_compiled() -> None:
    with waiting_for_its_grammar(deadline=time.time() - 1) as (engine, _):
        output = engine.step()["bound"]
        assert (output.finish_reason, output.error) == ("abort", DEADLINE_EXCEEDED)
        assert not engine.core.has_work


# -- before the engine


async def test_what_would_compile_for_hours_is_given_up_and_the_next_one_is_tried() -> None:
    with closing(StructureChecks(cpu_s=1)) as checks:
        with pytest.raises(RequestRefused, match=TOO_COSTLY) as refusal:
            await checks.check(sampling(COSTLY))
        assert (refusal.value.param, refusal.value.code) == ("response_format", "invalid_json_schema")
        await checks.check(sampling({"type": "object"}))


async def test_a_check_outlives_its_process_but_not_its_server() -> None:
    with closing(StructureChecks()) as checks:
        await checks.check(sampling({"type": "object"}))
        assert checks.pid is not None
        os.kill(checks.pid, signal.SIGKILL)
        await checks.check(sampling({"type": "array"}))
    with pytest.raises(EngineUnavailable):
        await checks.check(sampling({"type": "string"}))
