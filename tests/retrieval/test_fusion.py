"""Reciprocal rank fusion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead_retrieval.fusion import RRF_K, reciprocal_rank_fusion


def test_what_both_engines_rank_high_comes_before_what_one_ranks_first() -> None:
    fused = reciprocal_rank_fusion({"dense": [1, 2, 3], "lexical": [4, 2, 5]})
    assert fused[0].id == 2
    assert fused[0].ranks == {"dense": 2, "lexical": 2}


def test_scores_follow_the_formula_of_the_paper_up_to_their_scale() -> None:
    fused = {f.id: f.score for f in reciprocal_rank_fusion({"dense": [7, 8], "lexical": [8]})}
    plain = {7: 1 / (RRF_K + 1), 8: 1 / (RRF_K + 2) + 1 / (RRF_K + 1)}
    assert fused[7] / fused[8] == pytest.approx(plain[7] / plain[8])


def test_an_engine_without_hits_takes_no_part() -> None:
    alone = reciprocal_rank_fusion({"dense": [3, 1, 2]})
    assert reciprocal_rank_fusion({"dense": [3, 1, 2], "lexical": []}) == alone
    assert alone[0].score == 1.0


def test_nothing_found_anywhere_is_an_empty_ranking() -> None:
    assert reciprocal_rank_fusion({"dense": [], "lexical": []}) == []


rankings = st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 20), unique=True), max_size=3)


@given(rankings)
def test_every_hit_is_ranked_once_and_scores_lie_between_0_and_1(found: dict[str, list[int]]) -> None:
    fused = reciprocal_rank_fusion(found)
    assert sorted(f.id for f in fused) == sorted({i for ids in found.values() for i in ids})
    scores = [f.score for f in fused]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert reciprocal_rank_fusion(dict(reversed(found.items()))) == fused
