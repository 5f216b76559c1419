"""A bound on a text's tokens by its length: never over the truth, and near enough to refuse what is hopeless."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, normalizers, pre_tokenizers
from tokenizers import Tokenizer as RawTokenizer
from tokenizers import models as raw_models

from readahead_serving.model.tokenizer import Tokenizer
from tests.serving.prompts import PROMPTS

SHRINKING = ("e\u0301" * 40, "\u1112\u1161\u11ab" * 40, "\u1fef" * 40, "\u212b\u0301" * 40)
"""Texts that canonical composition shortens."""


def byte_level(**parts: Any) -> RawTokenizer:
    alphabet = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = [("a", "a"), ("aa", "aa")]
    raw = RawTokenizer(raw_models.BPE(vocab=alphabet | {"aa": 256, "aaaa": 257}, merges=merges))
    raw.pre_tokenizer = parts.get("pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=False))
    raw.decoder = decoders.ByteLevel()
    if "normalizer" in parts:
        raw.normalizer = parts["normalizer"]
    return raw


def ours(raw: RawTokenizer) -> Tokenizer:
    return Tokenizer(raw.to_str(), eos_ids=())


ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


@given(text=ANY)
def test_no_text_has_fewer_tokens_than_the_bound(smollm2_tokenizer: Tokenizer, text: str) -> None:
    for one in (text, text * 20, *PROMPTS):
        assert smollm2_tokenizer.least_tokens(one) <= len(smollm2_tokenizer.encode_prompt(one))


@given(text=ANY)
def test_nor_where_text_is_composed_first(text: str) -> None:
    tokenizer = ours(byte_level(normalizer=normalizers.NFC()))
    for one in (text, *SHRINKING):
        assert tokenizer.least_tokens(one) <= len(tokenizer.encode_prompt(one))
    assert tokenizer.least_tokens("a" * 1200) == 100


def test_bytes_that_the_vocabulary_lacks_count_for_nothing() -> None:
    parsed = json.loads(byte_level().to_str())
    del parsed["model"]["vocab"]["b"]
    tokenizer = Tokenizer(json.dumps(parsed), eos_ids=())
    assert tokenizer.encode_prompt("b" * 1000) == []
    assert tokenizer.least_tokens("b" * 1000) == 0
    assert tokenizer.least_tokens("b" * 1000 + "a" * 8) == 2


def test_the_bound_is_the_length_by_the_longest_token() -> None:
    assert ours(byte_level()).least_tokens("a" * 401) == 101


def test_a_tokenizer_that_may_lose_text_proves_nothing() -> None:
    swallowing = byte_level()
    swallowing.add_special_tokens([AddedToken("<s>", lstrip=True)])
    lowered = byte_level(normalizer=normalizers.Strip())
    split = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel()])
    for raw in (swallowing, lowered, byte_level(pre_tokenizer=split)):
        assert ours(raw).least_tokens("a" * 10_000) == 0


@pytest.mark.parametrize("cut", ["truncation", "padding"])
def test_a_file_that_says_to_cut_or_fill_texts_does_neither(cut: str) -> None:
    raw = byte_level()
    if cut == "truncation":
        raw.enable_truncation(2)
    else:
        raw.enable_padding(length=50)
    assert json.loads(raw.to_str())[cut]
    assert len(ours(raw).encode_prompt("b" * 9)) == 9
