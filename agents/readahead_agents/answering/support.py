"""Whether a sentence of an answer stands in the passages it was written from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from readahead_agents.answering.assertions import assertions
from readahead_agents.answering.denial import denies, denies_alike
from readahead_agents.answering.figures import NUMBERING, counts, measures, numbers
from readahead_agents.answering.kinds import tells_another_figure
from readahead_agents.answering.named import Known, Name, bears_label, contradicts, labels, proper
from readahead_agents.answering.pairs import Pairs, told_terms
from readahead_agents.answering.rows import is_row
from readahead_agents.answering.subject import Subject
from readahead_agents.answering.together import excludes_more, mixes, stumbles
from readahead_agents.answering.units import QuestionTerms, Unit, clauses, coordinated, halves, in_forms_of
from readahead_agents.answering.verdict import Judged, Verdict
from readahead_agents.answering.wording import LEADS
from readahead_agents.evidence import EvidenceSource
from readahead_agents.planning.question_kind import asks_for_analysis, asks_for_summary
from readahead_retrieval.relevance import inflected_terms, said_terms
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

_ECHO = re.compile(rf"^\W*(?:S\d+\b|Question:|Text:|{LEADS.pattern}|Findings so far|Using the (?:text|documents)\b)")
_YES = re.compile(r"^\W*(?:yes|yeah|correct|네|예)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=[\w,;:’'”\"] )[A-Z][\w’'-]+")


class Judge:
    """Judges the sentences of one answer.

    A sentence is supported where a quotation matches it (`EvidenceSource.cite`), and its figures and what it says
    beyond the question stand in that quotation, which is about what the sentence claims it is about, pairs what the
    sentence pairs, and denies what it denies.
    """

    def __init__(self, source: EvidenceSource, question: str, passages: Sequence[Evidence]) -> None:
        self._source = source
        self._passages = passages
        self._question = question
        self._asked_numbers = numbers(question)
        self._said_in_question = said_terms(question)
        self._units = in_forms_of(question, clauses(passages))
        self._terms = QuestionTerms.of(question, self._units)
        self._asked = [self._terms.asked, *(half & self._terms.asked for half in halves(question))]
        self._asks_fact = not asks_for_summary(question) and not asks_for_analysis(question)
        self._asks_one_fact = self._asks_fact and not halves(question)
        self._missing = Known(passages).missing(question)
        self._subject = self._told_subject() if self._asks_fact else None

    async def judge(self, sentence: str) -> Judged:
        """Judges one sentence. Raises nothing: a source that cannot compare by meaning compares by words."""
        if _ECHO.search(sentence):
            return Judged(Verdict.ECHO)
        new = said_terms(NUMBERING.sub(" ", sentence)) - self._said_in_question
        figures = numbers(sentence) - self._asked_numbers
        if not new and not figures:
            is_short = len(said_terms(sentence)) <= MAX_GLUE_TERMS
            return Judged(Verdict.GLUE if is_short and not _takes_sides(sentence) else Verdict.ECHO)
        tells_another = self._asks_fact and tells_another_figure(self._question, sentence)
        if tells_another or any(name.shown in sentence for name in self._missing):
            return Judged(Verdict.UNSUPPORTED)
        citations = await self._source.cite(sentence, self._passages)
        supporting = tuple(c for c in citations if self._supports(c, sentence, new, figures))
        if supporting:
            return Judged(Verdict.SUPPORTED, supporting)
        is_short = not figures and len(new) <= MAX_GLUE_TERMS and _NAME.search(sentence) is None
        is_glue = is_short and not citations and not _takes_sides(sentence)
        return Judged(Verdict.GLUE if is_glue else Verdict.UNSUPPORTED)

    def _supports(self, citation: Citation, sentence: str, new: frozenset[str], figures: set[str]) -> bool:
        quote = citation.quote
        if citation.score < MIN_SCORE or not figures <= numbers(quote) | self._asked_numbers:
            return False
        around = self._said_around(citation)
        if not measures(sentence) <= around | self._said_in_question or not self._is_all_there(sentence, quote, around):
            return False
        named = labels(sentence) or labels(self._question)
        subjects = [subject for subject in (self._subject, Subject.of(sentence)) if subject is not None]
        anchors = [
            anchor
            for anchor in self._anchors(citation)
            if self._is_of_named(anchor, named) and not any(subject.is_not_of(anchor) for subject in subjects)
        ]
        told = said_terms(quote).union(inflected_terms(self._question, quote), *(a.context for a in anchors))
        held = new & told
        if len(held) < MIN_NEW_HELD * len(new) or not self._bears_on_question(told | said_terms(sentence)):
            return False
        return self._is_told(citation, sentence, anchors, new, figures) and self._holds_together(
            sentence, quote, anchors, new
        )

    def _holds_together(self, sentence: str, quote: str, anchors: Sequence[Unit], new: frozenset[str]) -> bool:
        """Whether one statement bears the sentence out as a whole, with what it denies and leaves out."""
        if self._mixes(sentence, new, anchors):
            return False
        most = max((len(anchor.said & new) for anchor in anchors), default=0)
        standing = [anchor.text for anchor in anchors if len(anchor.said & new) == most]
        if standing and all(self._crosses(sentence, Pairs.of(text)) for text in standing):
            return False
        stood = " ".join(standing) or quote
        return not (excludes_more(sentence, stood) or stumbles(sentence, stood)) and denies_alike(sentence, stood)

    def _mixes(self, sentence: str, new: frozenset[str], anchors: Sequence[Unit]) -> bool:
        """Whether it is put together from several statements: whole, or, where two things are asked, in one clause."""
        if not self._asks_fact:
            return False
        if self._asks_one_fact:
            return mixes(new, anchors, self._units)
        clauses_new = (said_terms(clause) & new for clause in assertions(sentence))
        return any(mixes(part, self._units, self._units) for part in clauses_new)

    def _crosses(self, sentence: str, pairs: Pairs) -> bool:
        """Whether the sentence, or a clause of it, tells of one pair what another has."""
        asked = self._terms.asked | self._asked_numbers
        for clause in (sentence, *assertions(sentence)):
            said = told_terms(clause)
            about = asked & said or (asked if clause is sentence else frozenset[str]())
            if pairs.crosses(about, said - self._said_in_question - self._asked_numbers):
                return True
        return False

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
        return counts(sentence) <= counts(quote) | numbers(quote)

    def _told_subject(self) -> Subject | None:
        """That of the question, where a statement is about it; else what is asked may be told of its parts."""
        subject = Subject.of(self._question)
        return subject if subject is not None and any(map(subject.is_of, self._units)) else None

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


def _takes_sides(sentence: str) -> bool:
    """Whether it answers by itself, be it by a "no" alone."""
    return denies(sentence) or _YES.search(sentence) is not None


def _holds(passage: Evidence, citation: Citation) -> bool:
    return passage.document_id == citation.document_id and passage.page <= citation.page <= passage.last_page


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _overlap(one: str, other: str) -> bool:
    return one in other or other in one
