"""The engine under requests, packs and aborts in any order."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import Tensor

from readahead_serving.engine.core import EngineCore
from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.scheduler.plan import StepPlan
from readahead_serving.model.decoder import Decoder
from tests.serving.decoding import all_logits
from tests.serving.tiny_engine import CONFIG, TinyEngine, random_decoder, text, unconstrained

BLOCK = 32


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return random_decoder()


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
