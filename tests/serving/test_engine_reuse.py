"""KV that is taken over instead of computed: prefixes of earlier requests, packs, and what preemption leaves."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import Tensor

from readahead_serving.engine.core import EngineCore
from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.pack_table import MIN_PART
from readahead_serving.engine.kv.pool import BlockPool, KVPoolError
from readahead_serving.engine.kv.prefix_tree import MIN_COPIED, PrefixTree
from readahead_serving.engine.scheduler.plan import StepPlan
from readahead_serving.model.decoder import Decoder
from tests.serving.decoding import all_logits, decode_greedily
from tests.serving.tiny_engine import CONFIG, TinyEngine, random_decoder, unconstrained

BLOCK = 32


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return random_decoder()


def text(seed: int, tokens: int) -> list[int]:
    return random.Random(seed).choices(range(CONFIG.vocab_size), k=tokens)


def test_a_shared_beginning_is_computed_once_and_changes_no_token(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    system = text(1, 3 * BLOCK)
    first, second = system + text(2, 20), system + text(3, 20)
    assert engine.complete(first) == decode_greedily(decoder, first, 8)
    before = engine.executor.computed
    name = engine.add(second)
    engine.run()
    assert engine.tokens[name] == decode_greedily(decoder, second, 8)
    assert engine.cached[name] == 3 * BLOCK
    assert engine.executor.computed - before == 20 + 7
    assert engine.core.stats().prefix_hit_tokens == 3 * BLOCK


def test_a_beginning_shorter_than_a_block_is_taken_over_too(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    system = text(1, BLOCK - 10)
    for seed in (2, 3, 4):
        prompt = system + text(seed, 40)
        name = engine.add(prompt)
        engine.run()
        assert engine.tokens[name] == decode_greedily(decoder, prompt, 8)
        assert engine.cached[name] == (0 if seed == 2 else len(system))


def test_the_same_prompt_again_computes_one_token_of_it(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    prompt = text(1, 2 * BLOCK)
    written = engine.complete(prompt)
    before = engine.executor.computed
    name = engine.add(prompt)
    engine.run()
    assert engine.cached[name] == len(prompt) - 1
    assert engine.executor.computed - before == 1 + 7
    assert engine.tokens[name] == written == decode_greedily(decoder, prompt, 8)


def test_every_turn_of_a_chat_takes_over_the_turns_before_with_their_answers(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    history: list[int] = []
    for turn in range(5):
        history += text(turn, 25)
        name = engine.add(history)
        engine.run()
        # the last token of an answer is never computed, and a few tokens of a block are not worth a copy
        computed_before = len(history) - 25 - 1
        if turn:
            assert computed_before - MIN_COPIED < engine.cached[name] <= computed_before
        assert engine.tokens[name] == decode_greedily(decoder, history, 8)
        history += engine.tokens[name]


def test_two_salts_never_share_neither_prefixes_nor_packs(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    prompt = text(1, 3 * BLOCK)
    engine.core.attach_pack("p", "a", engine.build("p", prompt, salt="a"))
    for salt in ("a", "b"):
        for other in ("a", "b"):
            name = engine.add(prompt + text(2, 30), salt=salt + other)
            engine.run()
            assert engine.cached[name] == 0, "a salt of its own meets nothing"
    name = engine.add(prompt + text(3, 30), salt="b")
    engine.run()
    assert engine.cached[name] == 0
    name = engine.add(prompt + text(3, 30), salt="a")
    engine.run()
    assert engine.cached[name] == 3 * BLOCK, "the pack, and nothing of what b has computed"


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


def test_a_preempted_request_finds_its_own_kv_again_and_that_is_no_hit(decoder: Decoder) -> None:
    engine = TinyEngine(decoder, blocks=6)
    old, young = text(1, BLOCK), text(2, BLOCK)
    names = [engine.add(prompt, max_tokens=80) for prompt in (old, young)]
    engine.run()
    stats = engine.core.stats()
    assert stats.preempted >= 1
    assert stats.resumed_tokens > 0
    assert stats.prefix_hit_tokens == 0
    assert [engine.cached[name] for name in names] == [0, 0]
    for name, prompt in zip(names, (old, young), strict=True):
        assert engine.tokens[name] == decode_greedily(decoder, prompt, 80)


def test_the_least_recently_used_leaves_go_first_when_room_is_needed(decoder: Decoder) -> None:
    engine = TinyEngine(decoder, blocks=8)
    kept, gone = text(1, 2 * BLOCK + 1), text(2, 2 * BLOCK + 1)
    for prompt in (kept, gone, kept):
        engine.complete(prompt, max_tokens=1)
    engine.complete(text(3, 6 * BLOCK), max_tokens=1)
    assert engine.core.stats().kv_blocks_evicted > 0
    for prompt, cached in ((kept, 2 * BLOCK), (gone, 0)):
        name = engine.add(prompt, max_tokens=1)
        engine.run()
        assert (engine.cached[name] >= 2 * BLOCK) == (cached > 0)


def test_an_idle_engine_counts_used_cached_and_free_blocks_to_the_last(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    engine.complete(text(1, 110))
    stats = engine.core.stats()
    assert (stats.kv_tokens_used, stats.kv_tokens_cached) == (0, 4 * BLOCK)
    taken: list[int] = []
    assert engine.pool.extend(taken, 1)
    with pytest.raises(KVPoolError):
        engine.core.step()


def test_tokens_are_compared_where_digests_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("readahead_serving.engine.kv.prefix_tree.digest", lambda *parts: b"the same")
    pool = BlockPool(4, BLOCK)
    tree = PrefixTree(pool)
    blocks: list[int] = []
    assert pool.extend(blocks, BLOCK)
    tree.release([tree.publish(b"root", [], text(1, BLOCK), blocks[0])])
    assert len(tree.match(b"root", text(1, BLOCK)).nodes) == 1
    assert tree.match(b"root", text(2, BLOCK)).nodes == ()


class ShadowModel:
    """Stores token ids where the KV of tokens would lie, and proves that every chunk sees the tokens before it.

    The token after n is n + 1.
    """

    def __init__(self, blocks: int, block: int) -> None:
        self._block = block
        self._content = np.full((blocks, block), -1)

    def execute(self, plan: StepPlan) -> Tensor:
        for source, target in plan.copies:
            self._content[target] = self._content[source]
        for chunk in plan.chunks:
            own = chunk.sequence.own_start
            for position, token in enumerate(chunk.token_ids, chunk.start - own):
                self._content[chunk.sequence.blocks[position // self._block], position % self._block] = token
        for chunk in plan.chunks:
            pack = chunk.sequence.pack
            seen = [] if pack is None else pack.pack.kv.token_ids[: pack.num_tokens]
            seen = seen + self._content[chunk.sequence.blocks].reshape(-1).tolist()
            assert seen[: chunk.end] == chunk.sequence.token_ids[: chunk.end]
        last = torch.tensor([chunk.token_ids[-1] for chunk in plan.chunks if chunk.num_rows], dtype=torch.long)
        return torch.nn.functional.one_hot((last + 1) % CONFIG.vocab_size, CONFIG.vocab_size).float()


class Storm:
    """Requests, aborts and packs that come and go in any order."""

    def __init__(self, engine: TinyEngine, seed: int) -> None:
        self.rng = random.Random(seed)
        self.engine = engine
        self.contexts = [text(number, self.rng.randint(20, 180)) for number in range(4)]
        self.prompts: dict[str, list[int]] = {}
        self.aborted: set[str] = set()

    def step(self) -> None:
        rng = self.rng
        if len(self.prompts) - len(self.engine.ends) < 12 and rng.random() < 0.3:
            context = rng.choice([*self.contexts, []])[: rng.choice([10, 140, 1000])]
            prompt = context + text(rng.randint(0, 5), rng.randint(1, 90))
            name = self.engine.add(prompt, salt=rng.choice("ab"), max_tokens=rng.randint(1, 120))
            self.prompts[name] = prompt
        if rng.random() < 0.05:
            self.toggle_pack(rng.randrange(len(self.contexts)))
        living = [name for name in self.prompts if name not in self.engine.ends]
        if living and rng.random() < 0.03:
            self.aborted.add(name := rng.choice(living))
            self.engine.core.abort(name)
        self.engine.step()  # proves the books

    def toggle_pack(self, number: int) -> None:
        core, pack_id = self.engine.core, f"pack-{number}"
        if pack_id in self.engine.cache.packs:
            core.detach_pack(pack_id)
        else:
            core.attach_pack(pack_id, "a", self.pack(self.contexts[number]))

    def pack(self, tokens: list[int]) -> PackKV:
        empty = [torch.empty(1, len(tokens), 1)]
        return PackKV(tokens, empty, empty)

    def end(self) -> None:
        self.engine.run()
        stats = self.engine.core.stats()
        assert stats.kv_tokens_used == 0
        assert stats.preempted > 0
        assert min(stats.resumed_tokens, stats.prefix_hit_tokens, stats.pack_hit_tokens, stats.kv_blocks_evicted) > 0
        for name in self.prompts:
            assert self.engine.ends[name].finish_reason == ("abort" if name in self.aborted else "length")


class RealStorm(Storm):
    def pack(self, tokens: list[int]) -> PackKV:
        return TinyEngine(random_decoder()).build("x", tokens)


def test_ten_thousand_steps_in_any_order_keep_the_books_and_show_every_request_its_own_tokens() -> None:
    engine = TinyEngine(random_decoder(), blocks=14, chunk=48, most=5)
    engine.core = EngineCore(ShadowModel(14, BLOCK), engine.pool, engine.scheduler, unconstrained, [])
    storm = Storm(engine, 0)
    for _ in range(10_000):
        storm.step()
    storm.end()


def test_requests_packs_and_aborts_in_any_order_change_no_token(decoder: Decoder) -> None:
    engine = TinyEngine(decoder, blocks=14, chunk=48, most=5)
    storm = RealStorm(engine, 1)
    for _ in range(300):
        storm.step()
    storm.end()
    for name, prompt in storm.prompts.items():
        written = engine.tokens[name]
        # every token is the likeliest after those before it
        logits = all_logits(decoder, prompt + written)[len(prompt) - 1 : -1]
        assert logits.argmax(-1).tolist() == written
