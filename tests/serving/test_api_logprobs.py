"""Log probabilities, logit bias and echo through OpenAI's SDK, checked against transformers where there is a number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import openai
import pytest
import torch
from openai import OpenAI

from readahead_serving.model.tokenizer import Tokenizer
from tests.serving.llm_server import LlmServer

MODEL = "smollm2-135m-instruct"
PROMPT = "The capital of France is"
CHAT: Any = {"model": MODEL, "messages": [{"role": "user", "content": "Say: héllo 안녕 😀"}], "temperature": 0}
TOLERANCE = 2e-3


@pytest.fixture
def client(llm_server: LlmServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=llm_server.base_url, api_key="none", max_retries=0) as client:
        yield client


def test_they_are_the_models_own_before_temperature_and_bias(
    client: OpenAI, hf_smollm2: Any, smollm2_tokenizer: Tokenizer
) -> None:
    ids = smollm2_tokenizer.encode_prompt(PROMPT)
    with torch.no_grad():
        expected = torch.log_softmax(hf_smollm2(torch.tensor([ids])).logits[0, -1].float(), dim=-1)
    unlikely = int(expected.argmin())
    done = client.completions.create(
        model=MODEL, prompt=ids, max_tokens=1, temperature=1.7, seed=1, logprobs=3, logit_bias={str(unlikely): 100}
    )
    told = done.choices[0].logprobs
    assert told is not None and told.top_logprobs is not None and told.token_logprobs is not None
    assert told.token_logprobs[0] == pytest.approx(float(expected[unlikely]), abs=TOLERANCE)
    best = sorted(told.top_logprobs[0].values(), reverse=True)[:3]
    assert best == pytest.approx(expected.topk(3).values.tolist(), abs=TOLERANCE)


def test_text_completions_tell_where_each_token_stands(client: OpenAI) -> None:
    asked: Any = {"model": MODEL, "prompt": PROMPT, "max_tokens": 8, "temperature": 0, "logprobs": 2}
    choice = client.completions.create(**asked).choices[0]
    told = choice.logprobs
    assert told is not None and told.tokens is not None and told.text_offset is not None
    assert "".join(told.tokens) == choice.text
    assert all(choice.text[at:].startswith(token) for at, token in zip(told.text_offset, told.tokens, strict=True))
    chunks = list(client.completions.create(**asked, stream=True))
    streamed = [c.choices[0].logprobs for c in chunks if c.choices and c.choices[0].logprobs is not None]
    assert [token for one in streamed for token in one.tokens or ()] == told.tokens
    assert [at for one in streamed for at in one.text_offset or ()] == told.text_offset


def test_chat_tells_every_tokens_bytes_streamed_or_not(client: OpenAI) -> None:
    asked: Any = {**CHAT, "max_tokens": 24, "logprobs": True, "top_logprobs": 20}
    choice = client.chat.completions.create(**asked).choices[0]
    assert choice.logprobs is not None and choice.logprobs.content is not None
    told = choice.logprobs.content
    assert b"".join(bytes(entry.bytes or ()) for entry in told).decode("utf-8", "replace") == choice.message.content
    for entry in told:
        assert len(entry.top_logprobs) == 20
        assert entry.logprob == entry.top_logprobs[0].logprob, "greedy takes the likeliest"
        assert sum(math.exp(one.logprob) for one in entry.top_logprobs) <= 1 + 1e-6
    chunks = client.chat.completions.create(**asked, stream=True)
    streamed = [c.choices[0].logprobs for c in chunks if c.choices and c.choices[0].logprobs is not None]
    entries = [entry for one in streamed for entry in one.content or ()]
    assert [entry.token for entry in entries] == [entry.token for entry in told]
    assert [entry.logprob for entry in entries] == pytest.approx([entry.logprob for entry in told], abs=TOLERANCE)


def test_tokens_behind_a_stop_are_not_told(client: OpenAI) -> None:
    asked: Any = {"model": MODEL, "prompt": PROMPT, "max_tokens": 20, "temperature": 0}
    text = client.completions.create(**asked).choices[0].text
    stop = text.split()[3]
    choice = client.completions.create(**asked, stop=stop, logprobs=0).choices[0]
    assert choice.logprobs is not None and choice.logprobs.tokens is not None
    assert choice.text == text[: text.index(stop)]
    assert "".join(choice.logprobs.tokens).startswith(choice.text.rstrip())
    assert stop not in "".join(choice.logprobs.tokens)


def test_they_do_not_change_with_a_schema(client: OpenAI) -> None:
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
    formatted: Any = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    choice = client.chat.completions.create(**CHAT, max_tokens=60, response_format=formatted, logprobs=True).choices[0]
    assert choice.logprobs is not None and choice.logprobs.content is not None
    assert "".join(entry.token for entry in choice.logprobs.content) == choice.message.content


def test_a_bias_bans_and_forces_tokens(client: OpenAI, smollm2_tokenizer: Tokenizer) -> None:
    asked: Any = {"model": MODEL, "prompt": PROMPT, "temperature": 0}
    first = client.completions.create(**asked, max_tokens=1).choices[0].text
    banned, forced = (str(smollm2_tokenizer.encode(text, allow_special=False)[0]) for text in (first, " river"))
    assert client.completions.create(**asked, max_tokens=1, logit_bias={banned: -100}).choices[0].text != first
    assert client.completions.create(**asked, max_tokens=3, logit_bias={forced: 100}).choices[0].text == " river" * 3


def test_an_echo_puts_the_prompt_before_each_choice(client: OpenAI, smollm2_tokenizer: Tokenizer) -> None:
    asked: Any = {"model": MODEL, "max_tokens": 3, "temperature": 0}
    bare = client.completions.create(**asked, prompt=PROMPT).choices[0].text
    for prompt in (PROMPT, smollm2_tokenizer.encode_prompt(PROMPT)):
        echoed = client.completions.create(**asked, prompt=prompt, echo=True, n=2)
        assert [choice.text for choice in echoed.choices] == [PROMPT + bare] * 2
    chunks = client.completions.create(**asked, prompt=PROMPT, echo=True, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == PROMPT + bare


def test_an_echo_tells_the_prompts_tokens_too(client: OpenAI, hf_smollm2: Any, smollm2_tokenizer: Tokenizer) -> None:
    prompt = PROMPT + " 파리 😀."
    ids = smollm2_tokenizer.encode_prompt(prompt)
    with torch.no_grad():
        table = torch.log_softmax(hf_smollm2(torch.tensor([ids])).logits[0].float(), dim=-1)
    asked: Any = {"model": MODEL, "prompt": prompt, "max_tokens": 2, "temperature": 0, "echo": True, "logprobs": 1}
    choice = client.completions.create(**asked).choices[0]
    told = choice.logprobs
    assert told is not None and told.token_logprobs is not None and told.top_logprobs is not None
    assert told.tokens is not None and told.text_offset is not None
    assert told.token_logprobs[0] is None and told.top_logprobs[0] is None, "nothing comes before the first token"
    expected = table[:-1].gather(-1, torch.tensor(ids[1:])[:, None]).squeeze(-1)
    assert told.token_logprobs[1 : len(ids)] == pytest.approx(expected.tolist(), abs=TOLERANCE)
    assert len(told.tokens) == len(told.token_logprobs) == len(told.top_logprobs) == len(ids) + 2
    whole = [(at, token) for at, token in zip(told.text_offset, told.tokens, strict=True) if "bytes:" not in token]
    assert len(whole) > len(PROMPT.split())
    assert all(choice.text[at:].startswith(token) for at, token in whole)
    chunks = list(client.completions.create(**asked, stream=True))
    streamed = [c.choices[0].logprobs for c in chunks if c.choices and c.choices[0].logprobs is not None]
    assert [token for one in streamed for token in one.tokens or ()] == told.tokens
    assert [at for one in streamed for at in one.text_offset or ()] == told.text_offset


def test_a_bias_on_a_token_that_does_not_exist_is_refused_and_harms_nobody(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=MODEL, prompt=PROMPT, logit_bias={"999999": 1})
    assert caught.value.param == "logit_bias"
    assert client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=1).choices[0].finish_reason == "length"
