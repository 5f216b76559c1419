"""Matches the sentences of an answer to the passages that support them, whatever the model wrote about its sources.

A quote is a run of sentences of one page, chosen for each sentence of the answer by two signs: the share of its words
that the quote holds, where numbers weigh more, and the cosine of the two by the embedding model. A number that the
passage does not hold counts heavily against it. A sentence without a good enough quote gets no citation.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from readahead_retrieval.boxes import line_boxes
from readahead_retrieval.embedding import Embedder
from readahead_retrieval.errors import RetrievalError
from readahead_retrieval.index.analysis import COMMON, is_number, terms
from readahead_retrieval.sentences import sentence_spans
from readahead_retrieval.store.passages import Passage, load_passages
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import Citation, Evidence, Page

log = logging.getLogger(__name__)

MIN_SCORE = 0.5
MIN_COVERAGE = 0.3
"""Share of a sentence's words that a quote must hold, however near the embedding model finds it."""
LEXICAL_SHARE = 0.65
"""Of the score; the rest is the cosine."""
MISSING_NUMBER = 0.5
"""Factor on the score for each number of the sentence that the passage does not hold."""
WIDER_QUOTE = 0.03
"""What each further sentence of a quote must add."""
MAX_QUOTE_SENTENCES = 3
MAX_CANDIDATES = 3
"""Quotes that the embedding model compares for each sentence."""
MAX_SENTENCES = 200

_NUMBER_WEIGHT = 3.0
_COMMON_WEIGHT = 0.1
_COMMON = COMMON | frozenset(terms("also according document page says stated"))
# "[1]", "[S2, S99]", "【3】": what a model says of its sources. It is neither believed nor held against it.
_MARKER = re.compile(r"\[\s*[Ss]?\d+(?:\s*[,;–-]\s*[Ss]?\d+)*\s*\]|【[^】]*】")
_LIST_LABEL = re.compile(r"\A\s*(?:[-*•]+|\d{1,2}[.)])\s+")


@dataclass(frozen=True, slots=True)
class _Sentence:
    start: int
    end: int
    text: str
    """Without markers."""
    weights: dict[str, float]
    numbers: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Quote:
    evidence: Evidence
    page: Page
    start: int
    end: int
    sentences: int
    terms: frozenset[str]
    passage_terms: frozenset[str]
    """Of the whole passage and its heading."""

    @property
    def text(self) -> str:
        return self.page.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class _Match:
    sentence: _Sentence
    quote: _Quote
    coverage: float

    def score(self, cosine: float) -> float:
        blended = LEXICAL_SHARE * self.coverage + (1 - LEXICAL_SHARE) * max(cosine, 0.0)
        missing = len(self.sentence.numbers - self.quote.passage_terms)
        return min(blended, 1.0) * MISSING_NUMBER**missing

    def preference(self, cosine: float) -> float:
        return self.score(cosine) - WIDER_QUOTE * (self.quote.sentences - 1)


class Citer:
    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database = database
        self._embedder = embedder

    async def cite(self, tenant: str, answer: str, evidence: Sequence[Evidence]) -> list[Citation]:
        """As `Library.cite`. Evidence that is not the tenant's, or was removed since, is passed over."""
        async with self._database.reading() as session:
            passages = await load_passages(session, tenant, evidence)
        by_sentence = await asyncio.to_thread(_candidates, answer, passages)
        cosines = await self._cosines([match for matches in by_sentence for match in matches])
        return [c for matches in by_sentence if (c := _best(matches, cosines)) is not None]

    async def _cosines(self, matches: Sequence[_Match]) -> dict[tuple[str, str], float]:
        """By the two texts; empty where the embedding service fails, which must not cost the citations."""
        pairs = list(dict.fromkeys((m.sentence.text, m.quote.text) for m in matches))
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        try:
            vectors = dict(zip(texts, await self._embedder.embed(texts, "passage"), strict=True)) if texts else {}
        except RetrievalError as error:
            log.warning("Citing by words alone: %s", error.message)
            return {}
        return {(one, other): float(vectors[one] @ vectors[other]) for one, other in pairs}


def _candidates(answer: str, passages: Sequence[Passage]) -> list[list[_Match]]:
    """For each sentence of the answer the quotes that hold most of its words, best first."""
    quotes = [quote for passage in passages for quote in _quotes(passage)]
    found: list[list[_Match]] = []
    for sentence in _sentences(answer):
        matches = [_Match(sentence, quote, _coverage(sentence, quote)) for quote in quotes]
        worthy = [m for m in matches if m.coverage >= MIN_COVERAGE]
        found.append(sorted(worthy, key=lambda m: -m.preference(m.coverage))[:MAX_CANDIDATES])
    return found


def _best(matches: Sequence[_Match], cosines: dict[tuple[str, str], float]) -> Citation | None:
    def cosine(match: _Match) -> float:
        return cosines.get((match.sentence.text, match.quote.text), match.coverage)

    if not matches:
        return None
    best = max(matches, key=lambda m: m.preference(cosine(m)))
    score = best.score(cosine(best))
    return _citation(best, score) if score >= MIN_SCORE else None


def _citation(match: _Match, score: float) -> Citation:
    quote = match.quote
    return Citation(
        document_id=quote.evidence.document_id,
        document=quote.evidence.document,
        page=quote.page.number,
        page_label=quote.page.label,
        quote=quote.text,
        score=score,
        boxes=line_boxes(quote.page.words, quote.start, quote.end),
        answer_start=match.sentence.start,
        answer_end=match.sentence.end,
    )


def _sentences(answer: str) -> Iterator[_Sentence]:
    for count, (start, end) in enumerate(sentence_spans(answer)):
        if count == MAX_SENTENCES:
            return
        text = _LIST_LABEL.sub("", _MARKER.sub(" ", answer[start:end]), count=1).strip()
        found = frozenset(terms(text))
        if found - _COMMON:
            numbers = frozenset(filter(is_number, found))
            yield _Sentence(start, end, text, {term: _weight(term) for term in found}, numbers)


def _quotes(passage: Passage) -> Iterator[_Quote]:
    """Every run of up to `MAX_QUOTE_SENTENCES` sentences of the passage on one page."""
    held = frozenset(terms(f"{passage.evidence.heading}\n{passage.evidence.text}"))
    for page, span in passage.parts:
        whole = page.text[span.start : span.end]
        bounds = [(span.start + start, span.start + end) for start, end in sentence_spans(whole)]
        words = [frozenset(terms(page.text[start:end])) for start, end in bounds]
        for first in range(len(bounds)):
            for last in range(first, min(first + MAX_QUOTE_SENTENCES, len(bounds))):
                inside = frozenset().union(*words[first : last + 1])
                start, end = bounds[first][0], bounds[last][1]
                yield _Quote(passage.evidence, page, start, end, last - first + 1, inside, held)


def _coverage(sentence: _Sentence, quote: _Quote) -> float:
    """The weighted share of the sentence's terms that the quote holds."""
    held = sum(weight for term, weight in sentence.weights.items() if term in quote.terms)
    return held / sum(sentence.weights.values())


def _weight(term: str) -> float:
    if is_number(term):
        return _NUMBER_WEIGHT
    return _COMMON_WEIGHT if term in _COMMON else 1.0
