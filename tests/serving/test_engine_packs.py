"""Packs in the engine: read by many, found by the longest, built beside requests."""

from __future__ import annotations

import pytest

from readahead_serving.engine.kv.pack_table import MIN_PART
from readahead_serving.model.decoder import Decoder
from tests.serving.decoding import decode_greedily
from tests.serving.tiny_engine import CONFIG, TinyEngine, random_decoder, text

BLOCK = 32


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return random_decoder()


def test_a_pack_read_by_sixteen_lies_in_memory_once_and_changes_no_token(decoder: Decoder) -> None:
    engine = TinyEngine(decoder, blocks=64, chunk=256, most=16)
    context = text(1, 1200)
    kv = engine.build("p", context)
    engine.core.attach_pack("p", "", kv)
    assert kv.nbytes == 1200 * CONFIG.num_layers * 2 * CONFIG.num_kv_heads * CONFIG.head_dim * 4
    prompts = [context + text(seed, 5 + seed % 4) for seed in range(2, 18)]
    names = [engine.add(prompt) for prompt in prompts]
    engine.step()
    stats = engine.core.stats()
    assert stats.running == 16
    assert stats.pack_bytes == kv.nbytes
    assert stats.kv_tokens_used == 16 * BLOCK, "a block each for the questions"
    engine.run()
    for name, prompt in zip(names, prompts, strict=True):
        assert engine.cached[name] == 1200
        assert engine.tokens[name] == decode_greedily(decoder, prompt, 8)


def test_several_packs_and_none_in_one_step_give_the_tokens_of_each_alone(decoder: Decoder) -> None:
    engine = TinyEngine(decoder, blocks=200, most=12)
    contexts = {name: text(number, 300 + 50 * number) for number, name in enumerate(("p", "q"))}
    for name, context in contexts.items():
        engine.core.attach_pack(name, "", engine.build(name, context))
    prompts = [start + text(seed, 30 + 9 * seed) for seed in range(10, 14) for start in (*contexts.values(), [])]
    names = [engine.add(prompt, max_tokens=64) for prompt in prompts]
    engine.run()
    for name, prompt in zip(names, prompts, strict=True):
        assert engine.tokens[name] == decode_greedily(decoder, prompt, 64)
    assert engine.core.stats().pack_hit_tokens == 4 * sum(map(len, contexts.values()))


def test_a_question_after_a_pack_is_found_again_by_the_next_turn(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    context = text(1, 200)
    engine.core.attach_pack("p", "", engine.build("p", context))
    question = context + text(2, 50)
    answer = engine.complete(question)
    name = engine.add(question + answer + text(3, 10))
    engine.run()
    assert engine.cached[name] == len(question) + len(answer) - 1


def test_the_longest_pack_wins_and_a_longer_one_is_built_on_a_shorter(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    context = text(1, 320)
    engine.core.attach_pack("short", "", engine.build("short", context[:200]))
    before = engine.executor.computed
    kv = engine.build("long", context)
    assert engine.executor.computed - before == 120
    engine.core.attach_pack("long", "", kv)
    name = engine.add(context + text(2, 9))
    engine.run()
    assert engine.cached[name] == 320
    assert engine.tokens[name] == decode_greedily(decoder, context + text(2, 9), 8)


def test_a_prompt_that_is_a_pack_or_lies_within_one_computes_its_last_token_only(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    context = text(1, 300)
    engine.core.attach_pack("p", "", engine.build("p", context))
    for prompt in (context, context[:200], context[:40]):
        before = engine.executor.computed
        name = engine.add(prompt, max_tokens=1)
        engine.run()
        assert engine.executor.computed - before == 1
        assert engine.cached[name] == len(prompt) - 1
        assert engine.tokens[name] == decode_greedily(decoder, prompt, 1)


def test_a_prompt_that_parts_from_a_pack_half_way_reads_it_up_to_there(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    context = text(1, 300)
    engine.core.attach_pack("p", "", engine.build("p", context))
    prompts = [context[:210] + text(2, 30), context + text(3, 9), context[: MIN_PART - 1] + text(4, 20)]
    names = [engine.add(prompt) for prompt in prompts]
    engine.run()
    assert [engine.cached[name] for name in names] == [210, 300, 0]
    for name, prompt in zip(names, prompts, strict=True):
        assert engine.tokens[name] == decode_greedily(decoder, prompt, 8)


def test_a_part_of_a_pack_is_not_read_where_an_earlier_request_has_left_more(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    context = text(1, 300)
    asked = context[:210] + text(2, 60)
    engine.complete(asked)
    engine.core.attach_pack("p", "", engine.build("p", context))
    name = engine.add(asked + text(3, 5))
    engine.run()
    assert engine.cached[name] == 8 * BLOCK > 210


def test_a_pack_detached_while_it_is_read_stays_until_its_last_reader_ends(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    context = text(1, 100)
    kv = engine.build("p", context)
    engine.core.attach_pack("p", "", kv)
    reader = engine.add([*context, 1])
    engine.step()
    assert not engine.core.detach_pack("p")
    late = engine.add([*context, 2])
    engine.step()
    assert engine.core.stats().pack_bytes == kv.nbytes
    engine.run()
    assert engine.cached[late] == 0
    assert engine.core.stats().pack_bytes == 0
    assert engine.tokens[reader] == decode_greedily(decoder, [*context, 1], 8)
    engine.core.attach_pack("p", "", kv)
    assert engine.core.detach_pack("p")


def test_a_build_steps_aside_for_requests_and_goes_on_where_it_was(decoder: Decoder) -> None:
    engine = TinyEngine(decoder, blocks=12, chunk=32)
    engine.core.build_pack("p", "", text(1, 11 * BLOCK))
    for _ in range(6):
        engine.step()
    [progress] = engine.core.build_progress()
    assert (progress.num_computed, progress.num_tokens) == (6 * BLOCK, 11 * BLOCK)
    prompt = text(2, 3 * BLOCK)
    name = engine.add(prompt)
    engine.run()
    assert engine.tokens[name] == decode_greedily(decoder, prompt, 8)
    assert engine.core.stats().preempted > 0
    assert engine.core.export_pack("p").token_ids == text(1, 11 * BLOCK)
    assert engine.core.build_progress() == []


def test_a_build_that_is_cancelled_or_never_fits_ends_with_its_reason(decoder: Decoder) -> None:
    engine = TinyEngine(decoder, blocks=4)
    engine.core.build_pack("large", "", text(1, 5 * BLOCK))
    engine.core.build_pack("cancelled", "", text(1, 3 * BLOCK))
    engine.step()
    engine.core.abort("cancelled")
    engine.step()
    assert engine.ends["large"].finish_reason == "error"
    assert engine.ends["cancelled"].finish_reason == "abort"
    assert engine.cache.num_available == engine.pool.num_blocks
