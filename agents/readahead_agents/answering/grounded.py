"""Writes a text from numbered passages: streamed, judged, cited. Shared by answers, actions and synthesis."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from readahead_agents.answering.denial import declines, is_about
from readahead_agents.answering.doubt import BestStatement
from readahead_agents.answering.figures import numbers
from readahead_agents.answering.marks import without_false_marks
from readahead_agents.answering.named import Known, Name
from readahead_agents.answering.packing import PackedPrompt
from readahead_agents.answering.passages import nearest_pages
from readahead_agents.answering.quotation import MAX_QUOTES, Quotation, best_units
from readahead_agents.answering.shown import Shown
from readahead_agents.answering.shown_text import plain
from readahead_agents.answering.statements import asks_number
from readahead_agents.answering.support import Judge
from readahead_agents.answering.verdict import SentenceJudge, Verdict
from readahead_agents.answering.wording import Wording, wording_of
from readahead_agents.answering.written import WrittenText
from readahead_agents.events import Answered, AnswerEvent, CitationFound, Token
from readahead_agents.evidence import EvidenceSource
from readahead_agents.llm.base import CompletionOptions, LanguageModel, TokenUsage
from readahead_retrieval.types import Evidence

MAX_UNSUPPORTED = 4
"""Sentences without any support after which a text that has none is given up."""


async def grounded_answer(
    llm: LanguageModel,
    source: EvidenceSource,
    question: str,
    prompt: PackedPrompt,
    options: CompletionOptions,
    judge: SentenceJudge | None = None,
) -> AsyncGenerator[AnswerEvent, None]:
    """Streams an answer from the prompt's passages, then its citations, then `Answered`.

    A sentence is held until it is judged, and shown where the passages support it. Where nothing is shown, or the
    figure that was asked for is not in it, or it stands on nothing of the statement that surely answers, the passages'
    best statements follow as a quotation, marked as ours; where the model refuses and they are doubtful, it is said
    that the passages found do not tell. The model is not asked where the passages count up what the question names,
    and do not name it.

    Args:
        judge: Of the sentences; one by the prompt's passages where it is None.
    """
    if unlisted := _unlisted(source, question, prompt):
        yield Token(unlisted)
        yield Answered(unlisted, (), TokenUsage(), "stop", covered=False, notes=prompt.notes())
        return
    written, shown = WrittenText(llm, prompt.passages, source.link_hosts), Shown()
    judge = judge or Judge(source, question, prompt.passages)
    async with aclosing(written.sentences(prompt, options)) as sentences:
        async for sentence in sentences:
            unmarked = without_false_marks(sentence, prompt.passages)
            if piece := await _taken(judge, shown, unmarked, question):
                yield Token(piece)
            if not shown.text and shown.withheld >= MAX_UNSUPPORTED:
                break
    async with aclosing(_end(source, question, prompt, written, shown)) as events:
        async for event in events:
            yield event


async def _taken(judge: SentenceJudge, shown: Shown, sentence: str, question: str) -> str:
    """Judges a sentence; gives what is to be shown now."""
    stripped = sentence.strip()
    if declines(stripped):
        if is_about(stripped, question) and not numbers(stripped) - numbers(question):
            shown.declined = True
        else:
            shown.withhold()
        return ""
    judged = await judge.judge(stripped)
    if judged.verdict is Verdict.SUPPORTED:
        return "" if shown.says(stripped) else shown.show(sentence, judged.citations)
    if judged.verdict is Verdict.GLUE:
        shown.wait(sentence)
    else:
        shown.withhold()
    return ""


async def _end(
    source: EvidenceSource, question: str, prompt: PackedPrompt, written: WrittenText, shown: Shown
) -> AsyncGenerator[AnswerEvent, None]:
    """What follows the shown sentences: a quotation where they are not enough, the citations and `Answered`."""
    text, citations, quoted = shown.text, tuple(shown.citations), False
    wording = wording_of(question)
    missing = Known(prompt.passages).missing(question)
    best = BestStatement.of(question, prompt)
    if best.unit is None or (best.is_doubtful and shown.declined and not text):
        text = text or _untold(source, prompt.passages, wording)
        yield Token(text[len(shown.text) :])
    elif not text or _lacks_figure(question, text) or best.is_left_out_by(citations):
        before, lead, most = _lead(wording, shown, missing, doubtful=best.is_doubtful)
        best_first = best_units(question, prompt.passages, prompt.near, most)
        found = await Quotation.of(source, best_first, wording, lead, before)
        added = f"\n\n{found.text}" if text else found.text
        yield Token(added, quoted=True)
        text += added
        quoted = True
        citations += found.cited(text)
    for citation in citations:
        yield CitationFound(citation)
    yield Answered(
        answer=text,
        citations=citations,
        usage=await written.usage(prompt),
        finish_reason=written.finish_reason,
        covered=bool(citations) or quoted,
        quoted=quoted,
        notes=(*prompt.notes(), *filter(None, (_unmentioned(wording, missing), wording.withheld(shown.withheld)))),
    )


def _unlisted(source: EvidenceSource, question: str, prompt: PackedPrompt) -> str:
    """What is said where the passages have others of the kind that is asked for; empty where it need not be said."""
    known = Known(prompt.passages)
    for name in known.missing(question):
        if others := known.others(name):
            unlisted = wording_of(question).unlisted
            return unlisted.format(kb=source.name, name=name.shown, others=", ".join(others))
    return ""


def _untold(source: EvidenceSource, passages: Sequence[Evidence], wording: Wording) -> str:
    """A refusal in our own words. The model's are about the few passages that it was shown, and "No, the handbook does
    not mention dogs" says it of all."""
    if not passages:
        return wording.not_covered.format(kb=source.name)
    return " ".join(filter(None, (wording.not_told, nearest_pages(passages, wording))))


def _lead(wording: Wording, shown: Shown, missing: Sequence[Name], *, doubtful: bool) -> tuple[str, str, int]:
    """What is said before a quotation, what it is introduced by, and how many there may be."""
    if shown.text:
        return "", wording.closest, 1
    if missing:
        return _unmentioned(wording, missing), wording.closest_quoted, 1
    if doubtful:
        return wording.doubtful, wording.closest_quoted, 1
    return "", wording.quoted, MAX_QUOTES


def _unmentioned(wording: Wording, missing: Sequence[Name]) -> str:
    return wording.unmentioned_names([plain(name.shown) for name in missing])


def _lacks_figure(question: str, text: str) -> bool:
    return asks_number(question) and not numbers(text) - numbers(question)
