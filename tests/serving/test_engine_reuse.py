"""KV that is taken over instead of computed: prefixes of earlier requests, packs, and what preemption leaves."""

from __future__ import annotations

import pytest

from readahead_serving.engine.kv.pool import BlockPool, KVPoolError
from readahead_serving.engine.kv.prefix_tree import MIN_COPIED, PrefixTree
from readahead_serving.model.decoder import Decoder
from tests.serving.decoding import decode_greedily
from tests.serving.tiny_engine import TinyEngine, random_decoder, text

BLOCK = 32


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return random_decoder()


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
