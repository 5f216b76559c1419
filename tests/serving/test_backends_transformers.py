"""Families that our engine does not know, run by transformers behind the same surface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from tokenizers import Tokenizer as RawTokenizer
from tokenizers import decoders, models, pre_tokenizers

from readahead_serving.api.app import create_app
from readahead_serving.api.models import LanguageModel, Models
from readahead_serving.backends.transformers_cb import TransformersEngine, needs_transformers
from readahead_serving.engine.request import GenerationRequest, SamplingParams
from readahead_serving.errors import ModelLoadError, RequestRefused
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.settings import ServingSettings

SHAPES: dict[str, dict[str, Any]] = {
    "opt": {
        "hidden_size": 48,
        "word_embed_proj_dim": 48,
        "ffn_dim": 80,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 128,
    },
    "gpt2": {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 128},
    "bloom": {"hidden_size": 48, "n_layer": 2, "n_head": 4},
    "falcon": {
        "hidden_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 128,
        "alibi": False,
    },
}
PROMPTS = [[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8, 9, 7, 9, 3], [27, 18]]
NEW_TOKENS = 12


def save_random_model(folder: Path, model_type: str) -> Any:
    """A checkpoint whose vocabulary is the 256 bytes; returns the model."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(11)
    config = AutoConfig.for_model(
        model_type, vocab_size=256, bos_token_id=0, eos_token_id=255, pad_token_id=0, **SHAPES[model_type]
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3 + (parameter.dim() == 1))
    model.save_pretrained(folder)
    save_byte_tokenizer(folder)
    return model


def save_byte_tokenizer(folder: Path) -> None:
    """A tokenizer whose tokens are the 256 bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = RawTokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))


def greedy(model: Any, prompt: list[int]) -> list[int]:
    ids = torch.tensor([prompt])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=None
    )
    tokens: list[int] = out[0, len(prompt) :].tolist()
    return tokens


@asynccontextmanager
async def running(folder: Path, **settings: Any) -> AsyncIterator[TransformersEngine]:
    wanted = ServingSettings(dtype="float32", kv_cache_bytes=1 << 20, threads=1, max_running=8, **settings)
    engine = await TransformersEngine.start(wanted, folder, load_tokenizer(folder))
    try:
        yield engine
    finally:
        await engine.close()


def request(number: int, prompt: list[int], **sampling: Any) -> GenerationRequest:
    params = SamplingParams(**{"max_tokens": NEW_TOKENS, "temperature": 0.0, "ignore_eos": True} | sampling)
    return GenerationRequest(request_id=f"request-{number}", prompt_tokens=prompt, sampling=params)


async def complete(engine: TransformersEngine, asked: GenerationRequest) -> tuple[list[int], str, str | None]:
    deltas = [delta async for delta in engine.generate(asked)]
    tokens = [token for delta in deltas for token in delta.token_ids]
    return tokens, "".join(delta.text for delta in deltas), deltas[-1].finish_reason


@pytest.mark.parametrize("family", SHAPES)
async def test_requests_together_get_what_generate_gives_each_alone(family: str, tmp_path: Path) -> None:
    model = save_random_model(tmp_path, family)
    assert needs_transformers(tmp_path)
    async with running(tmp_path) as engine:
        results = await asyncio.gather(*(complete(engine, request(n, prompt)) for n, prompt in enumerate(PROMPTS)))
    assert [tokens for tokens, _, _ in results] == [greedy(model, prompt) for prompt in PROMPTS]
    assert {reason for _, _, reason in results} == {"length"}


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2")
    save_random_model(folder, "gpt2")
    return folder


async def test_a_stop_string_ends_the_text_and_the_end_token_the_completion(gpt2: Path) -> None:
    async with running(gpt2) as engine:
        tokens, text, _ = await complete(engine, request(0, PROMPTS[0], max_tokens=40))
        stop = text[5:7]
        _, cut, reason = await complete(engine, request(1, PROMPTS[0], max_tokens=40, stop=(stop,)))
        assert (cut, reason) == (text[: text.index(stop)], "stop")
    (gpt2 / "generation_config.json").write_text(json.dumps({"eos_token_id": tokens[3]}))
    async with running(gpt2) as engine:
        ended, _, reason = await complete(engine, request(2, PROMPTS[0], max_tokens=40, ignore_eos=False))
        assert (ended, reason) == (tokens[: tokens.index(tokens[3]) + 1], "stop")
    (gpt2 / "generation_config.json").unlink()


@pytest.mark.parametrize("family", ["gpt2", "opt"])
async def test_a_reader_that_leaves_ends_its_request(family: str, tmp_path: Path) -> None:
    save_random_model(tmp_path, family)
    async with running(tmp_path) as engine:
        async with aclosing(engine.generate(request(0, PROMPTS[0], max_tokens=100))) as deltas:
            await anext(deltas)
        await until(lambda: engine.stats().aborted == 1 and engine.stats().running == 0)
        tokens, _, _ = await complete(engine, request(1, PROMPTS[1]))
        assert len(tokens) == NEW_TOKENS


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  the state comes from another process
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("family", ["gpt2", "opt"])
async def test_sampling_keeps_to_the_likeliest_tokens(family: str, tmp_path: Path) -> None:
    model = save_random_model(tmp_path, family)
    with torch.inference_mode():
        likeliest = model(torch.tensor([PROMPTS[0]])).logits[0, -1].topk(3).indices.tolist()
    async with running(tmp_path) as engine:
        asked = [request(n, PROMPTS[0], max_tokens=1, temperature=5.0, top_k=3) for n in range(24)]
        firsts = [(await complete(engine, one))[0][0] for one in asked]
    assert set(firsts) <= set(likeliest)
    assert len(set(firsts)) > 1


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"seed": 1}, "seed"), ({"json_schema": "{}"}, "response_format"), ({"logprobs": 2}, "logprobs")],
)
async def test_what_transformers_lacks_is_refused_by_name(changes: dict[str, Any], named: str, gpt2: Path) -> None:
    engine = TransformersEngine(ServingSettings(), gpt2, load_tokenizer(gpt2))
    with pytest.raises(RequestRefused) as caught:
        await complete(engine, request(0, PROMPTS[0], **changes))
    assert caught.value.param == named


async def test_the_api_says_that_there_are_no_packs(gpt2: Path) -> None:
    async with running(gpt2) as engine:
        language = LanguageModel("tiny", engine, load_tokenizer(gpt2), engine.max_model_len, backend="transformers")
        app = create_app(ServingSettings(), Models(language=language))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tiny") as client:
            entry = (await client.get("/v1/models/tiny")).json()
            assert (entry["backend"], entry["packs"], entry["max_model_len"]) == ("transformers", False, 128)
            body = {"model": "tiny", "prompt": "abc", "max_tokens": 4, "temperature": 0}
            completion = (await client.post("/v1/completions", json=body)).json()
            assert completion["usage"]["completion_tokens"] == 4
            refused = await client.post("/v1/completions", json=body | {"seed": 3})
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, "seed")


def test_families_of_our_own_need_no_transformers(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    assert not needs_transformers(tmp_path)
    assert not needs_transformers(tmp_path / "model.gguf")


async def test_quantised_weights_are_refused(gpt2: Path) -> None:
    with pytest.raises(ModelLoadError, match="weights 'int8'"):
        async with running(gpt2, weights="int8"):
            pass


PUBLISHED = {
    "tokenizer_class": "GPT2Tokenizer",
    "add_bos_token": True,
    "add_prefix_space": False,
    "bos_token": {"__type": "AddedToken", "content": "</s>", "normalized": True, "lstrip": False, "rstrip": False},
    "eos_token": {"__type": "AddedToken", "content": "</s>", "normalized": True, "lstrip": False, "rstrip": False},
    "pad_token": "<pad>",
}
"""tokenizer_config.json as facebook/opt-125m has it."""


def with_old_tokenizer_files(folder: Path) -> None:
    """Leaves of the tokenizer what old models publish: vocab.json, merges.txt and a configuration."""
    (folder / "tokenizer.json").unlink()
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())[: 256 - 6]  # control bytes that no test writes make room
    words = ["<pad>", "</s>", *letters, "he", "ll", "hell", "\u0120hell"]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\nh e\nl l\nhe ll\n\u0120 hell\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(PUBLISHED))


async def test_a_folder_of_old_files_without_tokenizer_json_is_served(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model = save_random_model(tmp_path, "opt")
    with_old_tokenizer_files(tmp_path)
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(tmp_path)
    for text in ("hello hell", " hell's bells\n\n  12 é 안녕", "a</s>b<pad>"):
        assert ours.encode(text, allow_special=True) == theirs.encode(text, add_special_tokens=False)
        assert ours.encode_prompt(text) == [1, *ours.encode(text, allow_special=True)], "</s> leads"
        assert ours.decode(ours.encode(text, allow_special=False)) == text
    assert ours.special_ids == {0, 1}
    async with running(tmp_path) as engine:
        prompt = ours.encode_prompt("hello hell")
        tokens, text, _ = await complete(engine, request(0, prompt))
    assert tokens == greedy(model, prompt)
    assert text == ours.decode(tokens)


async def test_weights_that_are_pickles_are_refused_with_the_way_out(tmp_path: Path) -> None:
    model = save_random_model(tmp_path, "opt")
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelLoadError, match="Convert them to safetensors"):
        async with running(tmp_path):
            pass


async def test_a_folder_that_transformers_does_not_know_is_refused(tmp_path: Path) -> None:
    save_random_model(tmp_path, "gpt2")
    (tmp_path / "config.json").write_text('{"model_type": "no-such-model"}')
    with pytest.raises(ModelLoadError, match="transformers does not load"):
        async with running(tmp_path):
            pass
