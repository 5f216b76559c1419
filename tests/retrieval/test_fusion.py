"""One ranking of two engines' scores."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead_retrieval.fusion import fuse
from readahead_retrieval.index.dense import Hit


def test_what_both_engines_find_comes_before_what_one_alone_finds() -> None:
    dense, lexical = [Hit(1, 0.62), Hit(2, 0.6), Hit(3, 0.1)], [Hit(4, 12.0), Hit(2, 11.0), Hit(5, 1.0)]
    fused = fuse(dense, lexical, [Hit(4, 0.1), Hit(5, 0.1)])
    assert fused[0].id == 2
    assert fused[0].ranks == {"dense": 2, "lexical": 2}
    assert (fused[0].similarity, fused[0].lexical_score) == (0.6, 11.0)


def test_scores_follow_the_formula_of_the_paper_on_a_logistic_scale() -> None:
    """Two passages: their standard scores are 1 and -1 in each engine."""
    fused = fuse([Hit(7, 0.6), Hit(8, 0.2)], [Hit(8, 9.0)], weight=0.75)
    assert {f.id: f.score for f in fused} == {
        7: pytest.approx(1 / (1 + math.exp(-(0.75 - 0.25)))),
        8: pytest.approx(1 / (1 + math.exp(0.75 - 0.25))),
    }


def test_an_engine_that_finds_everything_equally_near_leaves_the_order_to_the_other() -> None:
    """As an English embedding model does with Korean: its first places mean nothing, and its scores say so."""
    dense = [Hit(i, 0.9 - i / 10_000) for i in range(40)]
    lexical = [Hit(100, 20.0), Hit(39, 8.0), Hit(101, 7.5)]
    fused = fuse(dense, lexical, [Hit(100, 0.8955), Hit(101, 0.8955)])
    assert fused[0].id == 100


def test_an_engine_without_hits_takes_no_part() -> None:
    for alone in (fuse([Hit(3, 0.9), Hit(1, 0.5)], []), fuse([], [Hit(3, 8.0), Hit(1, 2.0)])):
        assert [f.id for f in alone] == [3, 1]
        assert [f.score for f in alone] == pytest.approx([0.731, 0.269], abs=1e-3)
    assert {f.similarity for f in fuse([], [Hit(3, 8.0)])} == {None}


def test_equal_scores_are_not_blown_up_to_differences() -> None:
    fused = fuse([Hit(1, 0.5 + 1e-9), Hit(2, 0.5)], [])
    assert fused[0].score == pytest.approx(fused[1].score, abs=1e-3)


def test_nothing_found_anywhere_is_an_empty_ranking() -> None:
    assert fuse([], []) == []


def _hits(low: float, high: float) -> st.SearchStrategy[list[Hit]]:
    scored = st.dictionaries(st.integers(0, 20), st.floats(low, high))
    return scored.map(lambda found: sorted((Hit(*item) for item in found.items()), key=lambda hit: -hit.score))


@given(_hits(-1.0, 1.0), _hits(0.01, 50.0))
def test_every_hit_is_ranked_once_and_scores_lie_between_0_and_1(dense: list[Hit], lexical: list[Hit]) -> None:
    fused = fuse(dense, lexical)
    assert sorted(f.id for f in fused) == sorted({hit.chunk_id for hit in (*dense, *lexical)})
    scores = [f.score for f in fused]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
