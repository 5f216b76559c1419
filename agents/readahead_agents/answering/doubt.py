"""How sure it is that the best statement of the passages answers the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from readahead_agents.answering.figures import counts, numbers
from readahead_agents.answering.kinds import asked_kind
from readahead_agents.answering.packing import PackedPrompt
from readahead_agents.answering.quotation import best_units, lacks_name, lacks_noun, said_share
from readahead_agents.answering.statements import asks_number
from readahead_agents.answering.subject import Subject
from readahead_agents.answering.units import Unit
from readahead_agents.named_places import page_asked
from readahead_agents.planning.question_kind import asks_for_summary
from readahead_retrieval.relevance import relevance
from readahead_retrieval.types import Citation

MIN_QUOTED = 0.45
"""Share of a question's weight below which a quote may be from beside the matter, whatever its passage holds."""
SURELY_SAID = 0.65
"""Above which it is not, however far the passage as a whole is from the question."""
SURELY_NEAR = 0.7
"""Cosine of a quote that says in other words what is asked for. Of 15 XQuAD questions whose best statement says little
of their words and whose paragraph is there, 6 have such a one, 5 of them right; of 32 whose paragraph was taken away,
none."""
UNTOLD_NEAR = 0.65
"""Cosine below which a quote that says about half of the question must have something of the kind that is asked for. A
quote without the figure that is asked for, or below this, gets a doubt: of 956 questions (XQuAD's with and without
their paragraph, Wikipedia's articles, our samples) 17 of 95 quotes that were wrong without one, and 15 of 354 right."""
SURE_RELEVANCE = 1.05
"""`relevance` below which passages may be from beside the matter: a quotation says so then. On XQuAD (397 questions,
paragraphs of Wikipedia) it is below for 11% of the questions whose paragraph is there and 85% of those whose paragraph
was taken away."""


@dataclass(frozen=True, slots=True)
class BestStatement:
    """The statement that answers best, where there is any, and what speaks for it and against it."""

    unit: Unit | None
    is_doubtful: bool
    """It may be from beside the matter."""
    is_sure: bool
    """It says nearly all that is asked, in the question's words or in others."""

    @classmethod
    def of(cls, question: str, prompt: PackedPrompt) -> Self:
        """A long passage may be far from a question that one sentence of it answers, and near to one that none of its
        sentences does."""
        if not prompt.passages:
            return cls(None, is_doubtful=True, is_sure=False)
        [unit] = best_units(question, prompt.passages, prompt.near, 1)
        subject = Subject.of(question)
        if lacks_noun(question, prompt.passages) or (subject is not None and subject.is_not_of(unit)):
            return cls(unit, is_doubtful=True, is_sure=False)
        said, near = said_share(question, unit, prompt.passages), prompt.near.of(unit)
        if prompt.near.cosines and _asks_fact(question) and _leaves_untold(question, unit.text, said, near):
            return cls(unit, is_doubtful=True, is_sure=False)
        if said >= SURELY_SAID:
            return cls(unit, is_doubtful=False, is_sure=True)
        beside = lacks_name(question, unit) or relevance(question, prompt.passages) < SURE_RELEVANCE
        is_doubtful = beside or (said < MIN_QUOTED and near < SURELY_NEAR)
        return cls(unit, is_doubtful=is_doubtful, is_sure=not is_doubtful and near >= SURELY_NEAR)

    def is_left_out_by(self, citations: Sequence[Citation]) -> bool:
        """Whether it is sure, and nothing of it bears out what is shown already."""
        if self.unit is None or not self.is_sure:
            return False
        best = " ".join(self.unit.text.split())
        quotes = (" ".join(citation.quote.split()) for citation in citations)
        return not any(quote in best or best in quote for quote in quotes)


def _asks_fact(question: str) -> bool:
    """Whether it asks for more than what a page or a document says at all."""
    return page_asked(question) is None and not asks_for_summary(question)


def _leaves_untold(question: str, text: str, said: float, near: float) -> bool:
    """Whether a quote lacks what is asked for, by its kind, and is not near enough to tell it in other words."""
    if asks_number(question) and not _has_figure(question, text):
        return near < SURELY_NEAR
    if said >= SURELY_SAID or near >= UNTOLD_NEAR:
        return False
    kind = asked_kind(question)
    return not (asks_number(question) or (kind is not None and kind.holds(text)))


def _has_figure(question: str, text: str) -> bool:
    return bool(counts(text) or numbers(text) - numbers(question))
