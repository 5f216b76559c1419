"""Whether a sentence of an answer stands in the passages it was written from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from readahead_agents.answering.named import Known, Name, bears_label, contradicts, labels, proper
from readahead_agents.answering.rows import is_row
from readahead_agents.answering.together import excludes_more, mixes, stumbles
from readahead_agents.answering.units import QuestionTerms, Unit, clauses, coordinated, halves
from readahead_agents.evidence import EvidenceSource
from readahead_agents.planning.question_kind import asks_for_analysis, asks_for_summary
from readahead_retrieval.relevance import key_terms, said_terms
from readahead_retrieval.sentences import sentence_spans
from readahead_retrieval.types import Citation, Evidence

MIN_NEW_HELD = 0.6
"""Share of what a sentence says beyond the question that its passage must hold."""
MIN_BEARING = 0.5
"""Of the question's words that a sentence repeats, how many the words it stands on must hold too, compared with the
statement that holds most: a figure from beside the matter answers nothing."""
MIN_SCORE = 0.7
"""Of a citation that a sentence may stand on. Of 20 sentences of the default model whose best match was below, on two
sets of documents, 6 were right; of those above, half."""
MIN_SAID = 0.35
"""Share of the question's weight that a sentence and what it stands on must say: that an actor was born in 1993 is true
and no answer to how many cats he owns."""
MIN_CLAIMED = 0.5
"""Of the question's words that a sentence repeats, by their weight, how many its passage must hold: "the shoe size of
Louis XIV was 1715" is not borne out by the row of his reign."""
MAX_GLUE_TERMS = 3
MAX_DECLINE_CHARS = 200

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_DATE = re.compile(r"\d{1,4}[.]\d{1,2}[.]\d{1,4}")
_MEASURE = re.compile(r"\d[ \u00a0]?([^\W\d_]+)")
# markers of passages, and the numbers of a list, state nothing
_NUMBERING = re.compile(r"\[\s*S\d[^\]]*\]|^\s*\d{1,3}[.)](?=\s)", re.MULTILINE)
_COUNTS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_COUNTED = re.compile(rf"\b(?:{'|'.join(_COUNTS)})\b", re.IGNORECASE)
MAX_BARE_DECLINE_CHARS = 60
_DECLINES = re.compile(
    r"\bnot in the (?:documents|passages|text)\b|"
    r"\b(?:not|n't|no)\b.{0,40}\b(?:mention|stat|specif|provid|contain|inform|answer|say|cover)",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|unless)\b|n['’]t\b|없|않|못", re.I
)
_EXCEPTION = re.compile(
    r"\b(?:only|except|refus\w*|forbid\w*|forbidden|prohibit\w*|lack\w*|fail\w*|un\w+ed)\b|금지|아니", re.I
)
_ECHO = re.compile(
    r"^\W*(?:S\d+\b|Question:|Text:|Quoted from\b|The closest passage\b|Findings so far|Using the (?:text|documents)\b)"
)
_NAME = re.compile(r"(?<=[\w,;:’'”\"] )[A-Z][\w’'-]+")


class Verdict(StrEnum):
    """What a sentence is worth."""

    SUPPORTED = "supported"
    GLUE = "glue"
    """Says nothing that could be wrong; worth showing before something that is supported."""
    UNSUPPORTED = "unsupported"
    ECHO = "echo"
    """The question or the prompt said again."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A sentence's verdict, and the passages that it stands on: citations of it, from 0."""

    verdict: Verdict
    citations: tuple[Citation, ...] = ()


class SentenceJudge(Protocol):
    """Tells what a sentence of an answer is worth."""

    async def judge(self, sentence: str) -> Judged:
        """Judges one sentence. Raises nothing: what cannot be compared is not supported."""
        ...


class Judge:
    """Judges the sentences of one answer.

    A sentence is supported where a quotation matches it (`EvidenceSource.cite`), and its figures and what it says
    beyond the question stand in that quotation, which is about what the sentence claims it is about, and denies what
    the sentence denies.
    """

    def __init__(self, source: EvidenceSource, question: str, passages: Sequence[Evidence]) -> None:
        self._source = source
        self._passages = passages
        self._question = question
        self._asked_numbers = numbers(question)
        self._said_in_question = said_terms(question)
        self._units = clauses(passages)
        self._terms = QuestionTerms.of(question, self._units)
        self._asked = [self._terms.asked, *(half & self._terms.asked for half in halves(question))]
        self._asks_fact = not asks_for_summary(question) and not asks_for_analysis(question)
        self._asks_one_fact = self._asks_fact and not halves(question)
        self._missing = Known(passages).missing(question)

    async def judge(self, sentence: str) -> Judged:
        """Judges one sentence. Raises nothing: a source that cannot compare by meaning compares by words."""
        if _ECHO.search(sentence):
            return Judged(Verdict.ECHO)
        new = said_terms(_NUMBERING.sub(" ", sentence)) - self._said_in_question
        figures = numbers(sentence) - self._asked_numbers
        if not new and not figures:
            return Judged(Verdict.GLUE if len(said_terms(sentence)) <= MAX_GLUE_TERMS else Verdict.ECHO)
        if any(name.shown in sentence for name in self._missing):
            return Judged(Verdict.UNSUPPORTED)
        citations = await self._source.cite(sentence, self._passages)
        supporting = tuple(c for c in citations if self._supports(c, sentence, new, figures))
        if supporting:
            return Judged(Verdict.SUPPORTED, supporting)
        is_glue = not figures and len(new) <= MAX_GLUE_TERMS and _NAME.search(sentence) is None
        return Judged(Verdict.GLUE if is_glue and not citations else Verdict.UNSUPPORTED)

    def _supports(self, citation: Citation, sentence: str, new: frozenset[str], figures: set[str]) -> bool:
        quote = citation.quote
        if citation.score < MIN_SCORE or not figures <= numbers(quote) | self._asked_numbers:
            return False
        around = self._said_around(citation)
        if not _measures(sentence) <= around | self._said_in_question or not self._is_all_there(
            sentence, quote, around
        ):
            return False
        named = labels(sentence) or labels(self._question)
        anchors = [anchor for anchor in self._anchors(citation) if self._is_of_named(anchor, named)]
        told = said_terms(quote).union(*(anchor.context for anchor in anchors))
        held = new & told
        if len(held) < MIN_NEW_HELD * len(new) or not self._bears_on_question(told | said_terms(sentence)):
            return False
        return self._is_told(citation, sentence, anchors, new, figures) and self._holds_together(
            sentence, quote, anchors, new
        )

    def _holds_together(self, sentence: str, quote: str, anchors: Sequence[Unit], new: frozenset[str]) -> bool:
        """Whether one statement bears the sentence out as a whole, with what it denies and leaves out."""
        if self._asks_one_fact and mixes(new, anchors, self._units):
            return False
        most = max((len(anchor.said & new) for anchor in anchors), default=0)
        stood = " ".join(anchor.text for anchor in anchors if len(anchor.said & new) == most) or quote
        return not (excludes_more(sentence, stood) or stumbles(sentence, stood)) and _denies_alike(sentence, stood)

    def _bears_on_question(self, said: frozenset[str]) -> bool:
        if not self._asks_fact:
            return True
        weigh = self._terms.weight
        return any(weigh(half, said) >= MIN_SAID * weigh(half, half) for half in self._asked)

    def _is_all_there(self, sentence: str, quote: str, around: frozenset[str]) -> bool:
        """Whether the passage holds the sentence's names and enough of what it claims, and the quotation its counts."""
        claimed = self._terms.asked & said_terms(sentence)
        weigh = self._terms.weight
        if weigh(claimed, around) < MIN_CLAIMED * weigh(claimed, claimed):
            return False
        if not said_terms(" ".join(proper(sentence))) <= around:
            return False
        return _counted(sentence) <= _counted(quote) | numbers(quote)

    def _is_of_named(self, anchor: Unit, named: Sequence[Name]) -> bool:
        """Whether a clause or row is of what bears the asked label: by itself, or by what stands before it."""
        if not named or bears_label(anchor.text, named):
            return not contradicts(anchor.text, named)
        before = (unit for unit in reversed(self._units) if unit.rank == anchor.rank and unit.end <= anchor.start)
        nearest = next((unit for unit in before if bears_label(unit.text, named)), None)
        return nearest is None or not contradicts(nearest.text, named)

    def _is_told(
        self, citation: Citation, sentence: str, anchors: Sequence[Unit], new: frozenset[str], figures: set[str]
    ) -> bool:
        """Whether the words that say what is new are about what the sentence claims it is about.

        For figures each must stand in such a clause or row, and its passage must bear on the question by itself.
        """
        claimed = self._terms.asked & said_terms(sentence) or self._terms.asked
        if not figures:
            most = max((len(anchor.said & new) for anchor in anchors), default=0)
            return any(self._bears(claimed, anchor) for anchor in anchors if len(anchor.said & new) == most)
        told = [anchor for anchor in anchors if self._bears(claimed, anchor)]
        told = self._of_asked_row(told, numbers(sentence) & self._asked_numbers)
        if len(figures) == 1:
            told = [half for anchor in told for half in self._halves_on(claimed, anchor)]
        if not figures <= set().union(*(numbers(anchor.text) for anchor in told)):
            return False
        return any(self._source.covers(self._question, [passage]) for passage in self._passages_of(citation))

    def _of_asked_row(self, anchors: Sequence[Unit], asked: set[str]) -> list[Unit]:
        """Without rows that lack the figure asked for where another row has it: "up to 12 m" is not "up to 10 m"."""
        rows = [unit for unit in self._units if is_row(unit.text) and asked & numbers(unit.text)]
        return [anchor for anchor in anchors if not rows or not is_row(anchor.text) or anchor in rows]

    def _halves_on(self, claimed: frozenset[str], anchor: Unit) -> list[Unit]:
        """The half of a statement that is about what is claimed; all of it, where its halves do not differ in that."""
        weigh, (subject, halves) = self._terms.weight, coordinated(anchor)
        held = [(weigh(claimed - subject, half.said), weigh(claimed, half.said)) for half in halves]
        return [half for half, weight in zip(halves, held, strict=True) if weight == max(held)]

    def _anchors(self, citation: Citation) -> list[Unit]:
        """The clauses and rows of the quotation."""
        quoted = _squeezed(citation.quote)
        return [unit for unit in self._units if self._is_of(unit, citation) and _overlap(_squeezed(unit.text), quoted)]

    def _bears(self, claimed: frozenset[str], anchor: Unit) -> bool:
        """Whether the anchor holds enough of what is claimed, and the word of it that tells most, if any unit does."""
        weigh = self._terms.weight
        best = max(weigh(claimed, unit.said, unit.context) for unit in self._units)
        return weigh(claimed, anchor.said, anchor.context) >= MIN_BEARING * best

    def _said_around(self, citation: Citation) -> frozenset[str]:
        """What the quotation says, and the passage it stands in."""
        found = [unit.said | unit.context for unit in self._units if self._is_of(unit, citation)]
        return said_terms(citation.quote).union(*found)

    def _passages_of(self, citation: Citation) -> list[Evidence]:
        return [passage for passage in self._passages if _holds(passage, citation)]

    def _is_of(self, unit: Unit, citation: Citation) -> bool:
        return _holds(unit.passage, citation)


async def citations_of(
    source: EvidenceSource, question: str, text: str, passages: Sequence[Evidence]
) -> tuple[Citation, ...]:
    """The citations of the sentences of a text that stands already, where passages support them."""
    judge = Judge(source, question, passages)
    found: list[Citation] = []
    for start, end in sentence_spans(text):
        judged = await judge.judge(text[start:end])
        found += [shifted(citation, start) for citation in judged.citations]
    return tuple(found)


def shifted(citation: Citation, by: int) -> Citation:
    """The citation of a part of a text as one of the whole."""
    return replace(citation, answer_start=citation.answer_start + by, answer_end=citation.answer_end + by)


def declines(answer: str) -> bool:
    """Whether the model itself says that the passages do not answer; such a sentence needs no support."""
    return len(answer) <= MAX_DECLINE_CHARS and _DECLINES.search(answer) is not None


def is_about(declined: str, question: str) -> bool:
    """Whether a refusal is one of this question: short, or with a word of it. Small models refuse what nobody asked."""
    return len(declined) <= MAX_BARE_DECLINE_CHARS or bool(said_terms(declined) & key_terms(question))


def says_again(sentence: str, earlier: str) -> bool:
    """Whether a whole sentence says nothing that an earlier one does not; points of a list may."""
    if not sentence.rstrip("\"'”’)").endswith((".", "!", "?", "。")) or _denial(sentence) is not _denial(earlier):
        return False
    return said_terms(sentence) <= said_terms(earlier) and numbers(sentence) <= numbers(earlier)


def numbers(text: str) -> set[str]:
    """The numbers of a text as written, and the parts of dates: a model may say 2028 where the page has 11.01.2028."""
    text = _NUMBERING.sub("", text)
    parts = {part.lstrip("0") for date in _DATE.findall(text) for part in date.split(".")}
    return {match.group().replace(",", "") for match in _NUMBER.finditer(text)} | parts


def _counted(text: str) -> set[str]:
    """The small numbers that are written as words, as digits."""
    return {str(_COUNTS.index(match.group().lower()) + 2) for match in _COUNTED.finditer(text)}


def _measures(text: str) -> frozenset[str]:
    """What the figures count: the words right behind them."""
    return frozenset(term for word in _MEASURE.findall(text) for term in said_terms(word))


def _denies_alike(sentence: str, quote: str) -> bool:
    """A sentence that denies needs a quotation that denies; and one that repeats most of a denial must deny too."""
    denies, quote_denies = _denial(sentence), _NEGATION.search(quote) is not None
    if denies == quote_denies or (denies and _EXCEPTION.search(quote)):
        return True
    if denies:
        return False
    said = said_terms(quote)
    return len(said & said_terms(sentence)) < 0.6 * len(said) or _EXCEPTION.search(sentence) is not None


def _denial(sentence: str) -> bool:
    return _NEGATION.search(sentence) is not None


def _holds(passage: Evidence, citation: Citation) -> bool:
    return passage.document_id == citation.document_id and passage.page <= citation.page <= passage.last_page


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _overlap(one: str, other: str) -> bool:
    return one in other or other in one
