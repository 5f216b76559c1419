"""Tokens to text in whole code points."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead_serving.engine.detokenize import Detokenizer
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.model.tokenizer import Tokenizer

TEXTS = (
    "안녕하세요, 저는 이미 문서를 읽었습니다. 다람쥐 헌 쳇바퀴에 타고파 — 뷁!",
    "Family 👨‍👩‍👧‍👦, flag 🇰🇷, skin 👍🏽, maths 𝒳 ≥ ∑, naïve café, 漢字",
    "plain English\n\twith white space  and   runs",
)


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Tokenizer:
    return load_tokenizer(smollm2_path)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    borders = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(borders)]


@given(st.text() | st.sampled_from(TEXTS), st.lists(st.integers(0, 1000)))
def test_pieces_cut_anywhere_join_to_the_text_and_never_show_half_a_code_point(text: str, places: list[int]) -> None:
    tokens = cut(text.encode(), places)
    detokenizer = Detokenizer(tokens.__getitem__)
    pieces = [detokenizer.push([token]) for token in range(len(tokens))]
    assert "".join(pieces) == text
    assert detokenizer.flush() == ""


@given(st.binary(), st.lists(st.integers(0, 1000)))
def test_bytes_that_are_no_text_give_what_decoding_them_at_once_gives(data: bytes, places: list[int]) -> None:
    tokens = cut(data, places)
    detokenizer = Detokenizer(tokens.__getitem__)
    pieces = [detokenizer.push([token]) for token in range(len(tokens))]
    assert "".join(pieces) + detokenizer.flush() == data.decode("utf-8", "replace")


@pytest.mark.parametrize("text", TEXTS)
def test_a_real_tokenizers_stream_joins_to_its_full_decoding(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, allow_special=False)
    detokenizer = Detokenizer(tokenizer.token_bytes, tokenizer.special_ids)
    pieces = [detokenizer.push([token]) for token in ids]
    assert "".join(pieces) + detokenizer.flush() == tokenizer.decode(ids) == text
    assert not any("�" in piece for piece in pieces)


def test_special_tokens_have_no_text(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer.token_bytes, tokenizer.special_ids)
    assert detokenizer.push(sorted(tokenizer.special_ids)) + detokenizer.flush() == ""
