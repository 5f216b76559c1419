"""Packing evidence into a number of tokens."""

from __future__ import annotations

from readahead_retrieval.budget import pack_evidence
from readahead_retrieval.types import Evidence


class WordCounter:
    def count(self, text: str) -> int:
        return len(text.split())


def passage(chunk_id: int, words: int) -> Evidence:
    return Evidence(chunk_id, "doc", "a.pdf", 1, 1, "1", "", " ".join(["word"] * words), 0.0, 0.0)


def test_what_fits_is_kept_in_order_and_the_rest_is_named() -> None:
    evidence = [passage(1, 50), passage(2, 60), passage(3, 40)]
    packed = pack_evidence(evidence, WordCounter(), 100)
    assert [e.chunk_id for e in packed.kept] == [1, 3]
    assert [e.chunk_id for e in packed.dropped] == [2]
    assert packed.tokens == 90


def test_a_budget_is_met_to_the_token() -> None:
    evidence = [passage(1, 50), passage(2, 50)]
    assert pack_evidence(evidence, WordCounter(), 100).dropped == ()
    assert len(pack_evidence(evidence, WordCounter(), 99).kept) == 1
    assert pack_evidence(evidence, WordCounter(), 0).kept == ()


def test_what_the_prompt_writes_around_a_passage_counts_too() -> None:
    packed = pack_evidence([passage(1, 5)], WordCounter(), 6, render=lambda e: f"[S1] page {e.page}: {e.text}")
    assert packed.kept == ()
