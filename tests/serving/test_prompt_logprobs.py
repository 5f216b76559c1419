"""Log probabilities of a prompt's own tokens: those of the whole prompt in one pass, whatever else the engine does."""

from __future__ import annotations

import random

import pytest
import torch

from readahead_serving.engine.scheduler.prefill import MAX_PROMPT_ROWS
from readahead_serving.model.decoder import Decoder
from tests.serving.decoding import all_logits, decode_greedily
from tests.serving.tiny_engine import CONFIG, TinyEngine, random_decoder

BLOCK = 32


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return random_decoder()


def text(seed: int, tokens: int) -> list[int]:
    return random.Random(seed).choices(range(CONFIG.vocab_size), k=tokens)


def assert_told(engine: TinyEngine, name: str, decoder: Decoder, prompt: list[int]) -> None:
    """Each token but the first is told once, in order, with the likeliest two."""
    told = engine.told[name]
    assert [entry.token_id for entry in told] == prompt[1:]
    table = torch.log_softmax(all_logits(decoder, prompt)[:-1], dim=-1)
    expected = table.gather(-1, torch.tensor(prompt[1:])[:, None]).squeeze(-1)
    assert [entry.logprob for entry in told] == pytest.approx(expected.tolist(), abs=1e-4)
    assert [entry.top[1][1] for entry in told] == pytest.approx(table.topk(2).values[:, 1].tolist(), abs=1e-4)


def test_they_are_told_of_what_the_cache_and_packs_hold_too(decoder: Decoder) -> None:
    engine = TinyEngine(decoder, chunk=40)
    pack, prompt = text(1, 3 * BLOCK), text(1, 3 * BLOCK) + text(2, 50)
    engine.core.attach_pack("pack", "", engine.build("pack", pack))
    engine.complete(prompt)
    others = [engine.add(text(seed, 90)) for seed in (3, 4)]
    name = engine.add(prompt, logprobs=2, prompt_logprobs=True)
    engine.run()
    assert_told(engine, name, decoder, prompt)
    assert engine.tokens[name] == decode_greedily(decoder, prompt, 8)
    assert engine.cached[name] == 0
    assert not any(engine.told[other] for other in others)


def test_a_prompt_of_one_token_has_none(decoder: Decoder) -> None:
    engine = TinyEngine(decoder)
    name = engine.add([5], logprobs=0, prompt_logprobs=True)
    engine.run()
    assert engine.told[name] == []
    assert engine.tokens[name] == decode_greedily(decoder, [5], 8)


def test_a_request_preempted_within_its_prompt_tells_nothing_twice(decoder: Decoder) -> None:
    engine = TinyEngine(decoder, blocks=14, chunk=3)  # so that chunks end elsewhere the second time
    older, prompt = text(1, BLOCK), text(2, 300)
    first = engine.add(older, max_tokens=150)
    name = engine.add(prompt, logprobs=2, prompt_logprobs=True)
    while engine.core.has_work and not engine.core.stats().preempted:
        engine.step()
    assert 0 < len(engine.told[name]) < len(prompt) - 1, "it was half told"
    engine.run()
    assert_told(engine, name, decoder, prompt)
    assert engine.tokens[name] == decode_greedily(decoder, prompt, 8)
    assert engine.tokens[first] == decode_greedily(decoder, older, 150)


def test_several_long_prompts_take_few_rows_of_logits_in_a_step(decoder: Decoder) -> None:
    engine = TinyEngine(decoder, chunk=1000)
    prompts = [text(seed, 300) for seed in range(4)]
    names = [engine.add(prompt, logprobs=2, prompt_logprobs=True) for prompt in prompts]
    engine.run()
    for name, prompt in zip(names, prompts, strict=True):
        assert_told(engine, name, decoder, prompt)
    assert engine.executor.most_rows <= MAX_PROMPT_ROWS + len(prompts)
