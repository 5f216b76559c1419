"""In float32 to the token: a pack from disk, the pack in memory and no pack at all write the same."""

from __future__ import annotations

import random
from pathlib import Path

import torch

from readahead_serving.engine.kv.pack_files import map_pack, write_pack
from readahead_serving.engine.kv.pack_manifest import PackIdentity
from tests.serving.decoding import decode_greedily
from tests.serving.tiny_engine import CONFIG, TinyEngine, random_decoder

TOKENS = 64
IDENTITY = PackIdentity(model="tiny", tokenizer="none", template="none", rope="plain", dtype="float32")


def text(seed: int, tokens: int) -> list[int]:
    return random.Random(seed).choices(range(CONFIG.vocab_size), k=tokens)


def test_a_pack_read_back_by_another_engine_changes_no_token(tmp_path: Path) -> None:
    decoder = random_decoder()
    context = text(1, 700)
    prompts = [context + text(seed, 11 + seed) for seed in range(2, 6)]
    before = TinyEngine(decoder)
    built = before.build("p", context)
    before.core.attach_pack("p", "", built)
    write_pack(tmp_path / "p", built, IDENTITY, ())
    after = TinyEngine(decoder)
    mapped = map_pack(tmp_path / "p")
    after.core.attach_pack("p", "", mapped)
    pairs = zip([*mapped.keys, *mapped.values], [*built.keys, *built.values], strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    for engine in (before, after):
        names = [engine.add(prompt, max_tokens=TOKENS) for prompt in prompts]
        engine.run()
        for name, prompt in zip(names, prompts, strict=True):
            assert engine.tokens[name] == decode_greedily(decoder, prompt, TOKENS)
            assert engine.cached[name] == len(context)
    own = sum(len(prompt) - len(context) for prompt in prompts) + len(prompts) * (TOKENS - 1)
    assert after.executor.computed == own, "the second engine computes the questions and nothing of the pack"
