"""What a search returns of what it found: once each, not too much of one document, in the reranker's order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

from readahead_retrieval.apparatus import is_back_matter, is_reference_list
from readahead_retrieval.embedders.prefixed import PrefixedEmbedder
from readahead_retrieval.embedding import Vectors
from readahead_retrieval.fusion import Fused
from readahead_retrieval.library import Library
from readahead_retrieval.rerank import CrossEncoderReranker, KeepScores
from readahead_retrieval.selection import select, weighed
from readahead_retrieval.store.chunks import StoredChunk
from readahead_retrieval.tokens import EstimatedCounter, TokenizerCounter
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, TermEmbedder, add, opened, settings


def ranked(*ids: int) -> list[Fused]:
    return [Fused(i, 1 / i, {"dense": i}, 0.5, 0.0) for i in ids]


def chunk(chunk_id: int, document: str, text: str) -> StoredChunk:
    return StoredChunk(chunk_id, document, f"{document}.pdf", text, "", 1, 1, "1")


LIVE = {
    1: chunk(1, "a", "Annual leave is 25 days for each employee of the company."),
    2: chunk(2, "b", "Annual leave is 25 days for each employee of the company!"),
    3: chunk(3, "a", "Hotels are paid up to 140 euros a night."),
    5: chunk(5, "a", "Laptops are replaced after four years."),
    6: chunk(6, "c", "The archive is open on Mondays."),
    7: chunk(7, "c", "Bicycles stand behind the house."),
}


def test_what_was_removed_repeated_or_is_too_much_of_one_document_is_passed_over_with_its_reason() -> None:
    judged = select(ranked(1, 2, 3, 4, 5, 6, 7), LIVE, wanted=3, per_document=2)
    assert [(item.fused.id, item.dropped) for item in judged] == [
        (1, None),
        (2, "near_duplicate"),
        (3, None),
        (5, "document_cap"),
        (6, None),
        (7, "beyond_top_k"),
    ]


def test_without_a_cap_one_document_may_answer_alone() -> None:
    judged = select(ranked(1, 3, 5), LIVE, wanted=3)
    assert [item.dropped for item in judged] == [None, None, None]


class Recording(TermEmbedder):
    """Keeps what it was last asked to embed."""

    seen: Sequence[str] = ()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        self.seen = texts
        return await super().embed(texts, kind)


REFERENCES = """24. "Structure of the Court". Office of the Clerk. Archived from the original on May 2, 2010. Retrieved
May 31, 2012. 25. Smith, J. (2004). The Court and its Justices. pp. 12-19. ISBN 978-1-57607-194-6."""
PROSE = """Article III does not specify the number of justices. The Judiciary Act of 1789 called for six (see p. 12);
Congress added justices as the nation grew, and in 1869 the number was set at nine, where it has stood ever since."""


def test_a_list_of_references_is_told_from_text_that_cites() -> None:
    assert is_reference_list(REFERENCES)
    assert is_reference_list("[12] Y. Kim et al. 2019. Attention at work. https://example.org/a.pdf doi:10.1000/182")
    assert not is_reference_list(PROSE)
    assert not is_reference_list(
        "대한민국은 민주공화국이다. 대한민국의 주권은 국민에게 있고, 모든 권력은 국민으로부터 나온다."
    )
    assert not is_reference_list("")


@pytest.mark.parametrize(
    ("heading", "text", "points_elsewhere"),
    [
        ("Supreme Court › See also", "Ideological leanings of justices", True),
        ("7. References", "Hart, The Concept of Law", True),
        ("참고문헌", "김철수, 헌법학개론", True),
        ("", "External links\nThe court's own pages", True),
        ("Reference values of blood", "Sodium 135 to 145", False),
        ("", "Notes are taken by the clerk.", False),
    ],
)
def test_a_section_that_points_elsewhere_is_known_by_its_name(heading: str, text: str, points_elsewhere: bool) -> None:
    assert is_back_matter(heading, text) is points_elsewhere


@asynccontextmanager
async def filled(tmp_path: Path, handbook: Path, **values: object) -> AsyncIterator[Library]:
    other = samples.write_pdf(tmp_path / "other.pdf", samples.lines("Hotel nights are booked by the travel desk."))
    async with opened(tmp_path / "home", TermEmbedder(), **values) as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", handbook)
        await add(library, "k", other)
        yield library


async def test_a_retrieval_test_shows_what_each_engine_says_of_each_passage(tmp_path: Path, handbook: Path) -> None:
    async with filled(tmp_path, handbook) as library:
        considered = await library.explain(TENANT, "k", "hotel nights breakfast", top_k=2)
        found = await library.search(TENANT, "k", "hotel nights breakfast", top_k=2)
    assert [c.rank for c in considered] == list(range(1, len(considered) + 1))
    assert len(considered) == 4  # every passage there is
    assert [c.evidence for c in considered if c.dropped is None] == found
    by_words = max(considered, key=lambda candidate: candidate.lexical_score)
    assert (by_words.evidence.page, by_words.evidence.document) == (2, "handbook.pdf")
    assert by_words.evidence.ranks["lexical"] == 1
    assert [c.evidence.score for c in considered] == sorted((c.evidence.score for c in considered), reverse=True)
    assert considered[-1].dropped == "beyond_top_k"
    assert considered[-1].lexical_score == 0


def test_a_list_of_references_comes_behind_what_answers_about_as_well() -> None:
    live = {1: chunk(1, "a", REFERENCES), 2: chunk(2, "a", PROSE), 4: chunk(4, "b", "Bicycles stand outside.")}
    scores = {1: 0.8, 2: 0.7, 3: 0.7, 4: 0.3}
    ordered = weighed([Fused(i, score, {"lexical": i}, 0.5, 1.0) for i, score in scores.items()], live)
    assert [f.id for f in ordered] == [2, 1, 4]  # still before what says nothing of the matter


async def test_a_cap_leaves_room_for_other_documents(tmp_path: Path, handbook: Path) -> None:
    async with filled(tmp_path, handbook) as library:
        considered = await library.explain(TENANT, "k", "hotel nights breakfast", top_k=4, per_document=1)
    shown = [c.evidence.document for c in considered if c.dropped is None]
    assert sorted(shown) == ["handbook.pdf", "other.pdf"]


async def test_a_cap_in_the_settings_holds_for_every_search_but_those_within_one_document(
    tmp_path: Path, handbook: Path
) -> None:
    async with filled(tmp_path, handbook, per_document=1) as library:
        found = await library.search(TENANT, "k", "hotel nights breakfast", top_k=4)
        assert sorted(evidence.document for evidence in found) == ["handbook.pdf", "other.pdf"]
        (own,) = {e.document_id for e in found if e.document == "handbook.pdf"}
        assert len(await library.search(TENANT, "k", "hotel nights breakfast", 4, [own])) == 3


class Misled(TermEmbedder):
    """Finds a passage beside the matter near to every question."""

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        return await super().embed(["booked by the travel desk"] if kind == "query" else texts, kind)


class Stranger(EstimatedCounter):
    """Of a model that knows no script there is."""

    def knows(self, text: str) -> bool:
        return False


async def test_the_words_decide_where_the_model_does_not_know_the_script_of_the_question(
    tmp_path: Path, handbook: Path
) -> None:
    other = samples.write_pdf(tmp_path / "other.pdf", samples.lines("Hotel nights are booked by the travel desk."))
    first: list[str] = []
    for counter in (EstimatedCounter(), Stranger()):
        library = await Library.open(settings(tmp_path / type(counter).__name__), Misled(), counter)
        await library.create_kb(TENANT, "k")
        for path in (handbook, other):
            await add(library, "k", path)
        first.append((await library.search(TENANT, "k", "hotel nights breakfast"))[0].document)
        await library.close()
    assert first == ["other.pdf", "handbook.pdf"]


@pytest.mark.parametrize(
    ("question", "known"),
    [
        ("Who is the governor of Texas?", True),
        ("What does E30 mean for a C40 of type XK-7?", True),
        ("Wie hoch ist die Gebühr für die Straße?", True),
        ("대통령의 임기는 몇 년인가요?", False),
        ("C40의 보증 기간은 얼마인가요?", False),
        ("Сколько стоит билет?", False),
        ("12?", True),
        ("\ud800", True),
    ],
)
def test_a_vocabulary_tells_what_scripts_its_model_knows(minilm_path: Path, question: str, known: bool) -> None:
    assert TokenizerCounter.from_file(minilm_path / "tokenizer.json").knows(question) is known


async def test_prefixes_go_before_the_texts_and_into_the_models_name() -> None:
    inner = Recording()
    embedder = PrefixedEmbedder(inner, EstimatedCounter(), query="query: ", passage="passage: ")
    await embedder.embed(["leave"], "query")
    assert inner.seen == ["query: leave"]
    await embedder.embed(["leave"], "passage")
    assert inner.seen == ["passage: leave"]
    assert embedder.model_id != inner.model_id
    assert embedder.model_id != PrefixedEmbedder(inner, EstimatedCounter(), query="", passage="passage: ").model_id
    assert embedder.max_tokens < inner.max_tokens  # the chunks leave room for them


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real one, small and untrained: its order is arbitrary and always the same."""
    folder = tmp_path_factory.mktemp("cross-encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hotel", "night", "breakfast", "leave", "annual", "travel", "laptop"]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(words), num_labels=1, initializer_range=1.0, **shape)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


async def test_a_cross_encoder_decides_the_order_of_the_best_passages(
    tmp_path: Path, handbook: Path, cross_encoder: Path
) -> None:
    query = "hotel nights breakfast"
    async with filled(tmp_path, handbook, reranker_model=str(cross_encoder), rerank_candidates=3) as library:
        considered = await library.explain(TENANT, "k", query)
    reranker = await CrossEncoderReranker.load(str(cross_encoder))
    texts = [c.evidence.text for c in considered[:3]]
    scores = await reranker.rescore(query, texts, [0.0] * 3)
    assert [c.evidence.score for c in considered[:3]] == pytest.approx(scores, abs=1e-5)
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert await reranker.rescore(query, texts[:1], [0.0]) == pytest.approx(scores[:1], abs=1e-5)  # as alone
    assert await KeepScores().rescore(query, texts, [0.3, 0.2, 0.1]) == [0.3, 0.2, 0.1]
