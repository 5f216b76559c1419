"""Merges the results of all steps into one cited answer, and tells what failed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import merge_evidence
from readahead_agents.answering.answer import DEFAULT_OPTIONS, AnswerOptions, not_covered, system_text
from readahead_agents.answering.cited import citations_of, shifted
from readahead_agents.answering.grounded import grounded_answer
from readahead_agents.answering.held_pack import HeldPack, prompt_on_pack
from readahead_agents.answering.joined import MARKERS, joined
from readahead_agents.answering.packing import PackedPrompt, PromptParts, pack
from readahead_agents.answering.passages import as_data
from readahead_agents.answering.quotation import Quotation, best_units
from readahead_agents.answering.shown_text import plain
from readahead_agents.answering.statements import near_of
from readahead_agents.answering.told import of_documents, parted, told_passages
from readahead_agents.answering.wording import Wording, wording_of
from readahead_agents.errors import AgentError, BudgetExceeded, LanguageModelError
from readahead_agents.events import Answered, AnswerEvent, CitationFound, EvidenceFound, HistoryRead, Token, ToolQuote
from readahead_agents.evidence import EvidenceSource
from readahead_agents.executor import StepResult
from readahead_agents.limits import Budget
from readahead_agents.llm.base import CompletionOptions, LanguageModel, Message
from readahead_agents.memory.recent import spoken
from readahead_agents.planning.action_names import COMPARE
from readahead_agents.prompts import prompt
from readahead_agents.settings import AgentSettings
from readahead_retrieval.types import Evidence


@dataclass(frozen=True, slots=True)
class Synthesis:
    """Writes the answer of one run."""

    llm: LanguageModel
    source: EvidenceSource
    settings: AgentSettings
    budget: Budget
    asked: AnswerOptions = DEFAULT_OPTIONS
    pack: HeldPack | None = None
    """The whole documents as the model has read them already; then only findings and question are computed."""

    async def answer(
        self,
        question: str,
        history: Sequence[Message],
        results: Sequence[StepResult],
        found: Sequence[Evidence],
        notes: Sequence[str] = (),
    ) -> AsyncGenerator[AnswerEvent, None]:
        """Streams the answer; its last event is `Answered` with the usage of the whole run.

        What tools of other servers told stands beside the documents' passages while the answer is written, and is
        quoted behind it as theirs: what the answer uses of it, else its beginning.

        Args:
            found: What the question itself found, for when no step came to a result.
            notes: What else went wrong on the way.
        """
        wording = wording_of(question)
        covered = [step for step in results if step.result is not None and step.result.covered]
        written = _once([step.result for step in covered if step.result is not None and not step.server])
        told = told_passages(covered)
        evidence = merge_evidence([*(result.evidence for result in written), told])

        def unmerged(notes: tuple[str, ...] = ()) -> AsyncGenerator[AnswerEvent, None]:
            if written:
                return self._as_written(written, evidence, notes)
            return self._without_result(question, results, found)

        compared = any(step.step.tool == COMPARE for step in covered)  # merging them, small models forget a side
        if (len(written) > 1 or told) and not compared:
            events = self._merged(question, history, written, evidence, unmerged)
        else:
            events = unmerged()
        notes = [*notes, *(note for step in covered if step.result is not None for note in step.result.notes)]
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Answered):
                    # only now is known which limits the answer itself has met
                    failures = _failures(results, self.budget, wording)
                    for last in self._ended(parted(event), written, told, failures, notes, wording):
                        yield last
                elif isinstance(event, EvidenceFound):
                    yield replace(event, evidence=tuple(of_documents(event.evidence)))
                elif not isinstance(event, CitationFound) or of_documents([event.citation]):
                    yield event

    def _ended(
        self,
        answered: Answered,
        written: Sequence[ActionResult],
        told: Sequence[Evidence],
        failures: Sequence[str],
        notes: Sequence[str],
        wording: Wording,
    ) -> list[AnswerEvent]:
        """The end of the run: what the answer left out of the findings where it used none, what tools told and what
        failed are part of it, and the usage is the run's."""
        text, citations = answered.answer, answered.citations
        if told and not citations:
            lost, cited = joined(("", result) for result in written if result.text not in text)
            text += f"\n\n{lost}" if lost else ""
            citations = tuple(shifted(citation, len(text) - len(lost)) for citation in cited)
        tail = [*_tools_tell(told, answered.tool_quotes, wording), *([" ".join(failures)] if failures else [])]
        text += "".join(f"\n\n{part}" for part in tail)
        notes = tuple(dict.fromkeys([*answered.notes, *notes, *failures]))
        end = replace(answered, answer=text, citations=citations, usage=self.budget.usage, notes=notes)
        added = text[len(answered.answer) :]
        new = [CitationFound(citation) for citation in citations[len(answered.citations) :]]
        return [*([Token(added)] if added else []), *new, end]

    async def _merged(
        self,
        question: str,
        history: Sequence[Message],
        written: Sequence[ActionResult],
        evidence: Sequence[Evidence],
        unmerged: Callable[[tuple[str, ...]], AsyncGenerator[AnswerEvent, None]],
    ) -> AsyncGenerator[AnswerEvent, None]:
        """One more completion over all findings and passages; what there is without it where it cannot be had."""
        text = ""
        try:
            packed, options = await self._prompt(question, history, written, evidence)
            if history:
                yield HistoryRead(packed.remembered)
            yield EvidenceFound(packed.passages)
            async with aclosing(grounded_answer(self.llm, self.source, question, packed, options)) as events:
                async for event in events:
                    text += event.text if isinstance(event, Token) else ""
                    yield event
        except BudgetExceeded as error:
            last = self._cut_off(question, text, evidence) if text else unmerged(_unmerged(error))
        except LanguageModelError as error:
            if text:
                raise
            last = unmerged(_unmerged(error))
        else:
            return
        async with aclosing(last) as events:
            async for event in events:
                yield event

    async def _as_written(
        self, written: Sequence[ActionResult], evidence: Sequence[Evidence], notes: tuple[str, ...] = ()
    ) -> AsyncGenerator[AnswerEvent, None]:
        """The findings as they are, behind one another, with their own citations."""
        only = written[0]
        text, citations = (only.text, only.citations) if len(written) == 1 else joined(("", each) for each in written)
        yield EvidenceFound(tuple(evidence))
        yield Token(text)
        for citation in citations:
            yield CitationFound(citation)
        reason: Literal["stop", "length"] = "length" if any(r.finish_reason == "length" for r in written) else "stop"
        quoted = any(result.quoted for result in written)
        usage = self.budget.usage
        yield Answered(text, citations, usage, reason, covered=True, quoted=quoted, notes=notes)

    async def _cut_off(
        self, question: str, text: str, evidence: Sequence[Evidence]
    ) -> AsyncGenerator[AnswerEvent, None]:
        """The end of an answer that a limit cut in the middle."""
        citations = await citations_of(self.source, question, text, evidence)
        for citation in citations:
            yield CitationFound(citation)
        yield Answered(text, citations, self.budget.usage, "length", covered=True)

    async def _prompt(
        self, question: str, history: Sequence[Message], written: Sequence[ActionResult], evidence: Sequence[Evidence]
    ) -> tuple[PackedPrompt, CompletionOptions]:
        settings = self.settings
        options = self.asked.completion(settings)
        # what no passage supported is no finding; its passages are in the evidence
        findings = "\n".join(as_data(MARKERS.sub("", result.text)) for result in written if not result.quoted)
        template = "synthesis_user" if findings else "answer_user"
        near = await near_of(self.source, question, evidence)
        reader = self.asked.profile.told() if self.asked.profile is not None else ""
        if self.pack is not None and len(of_documents(evidence)) == len(evidence):
            asked = prompt("synthesis_pack" if findings else "pack_user").substitute(
                findings=findings, question=f"{question}{reader}"
            )
            on_pack = await prompt_on_pack(
                self.llm,
                self.pack,
                asked,
                evidence,
                options.max_tokens,
                history=history,
                history_tokens=settings.history_tokens,
            )
            if on_pack is not None:
                return replace(on_pack, near=near), options
        parts = PromptParts(
            system_text(history), spoken(history), tuple(evidence), question, template, findings, reader, near
        )
        packed = await pack(
            self.llm,
            parts,
            max_tokens=options.max_tokens,
            evidence_tokens=settings.evidence_tokens,
            history_tokens=settings.history_tokens,
        )
        return packed, options

    async def _without_result(
        self, question: str, results: Sequence[StepResult], found: Sequence[Evidence]
    ) -> AsyncGenerator[AnswerEvent, None]:
        """No step came to a text: the documents do not answer, or, where steps failed, the best passage speaks."""
        failed = any(step.result is None for step in results)
        if not failed or not self.source.covers(question, found):
            seen = merge_evidence([step.result.evidence for step in results if step.result is not None]) or found
            is_near = self.source.covers(question, seen)
            for told in not_covered(self.source, question, seen, is_near=is_near):
                yield told
            return
        wording, near = wording_of(question), await near_of(self.source, question, found)
        best = best_units(question, found, near, 1)
        closest = await Quotation.of(self.source, best, wording, wording.closest)
        text = closest.text
        yield EvidenceFound(tuple(found))
        yield Token(text)
        citations = closest.cited(text)
        for citation in citations:
            yield CitationFound(citation)
        yield Answered(text, citations, self.budget.usage, "stop", covered=True, quoted=True)


def _unmerged(error: AgentError) -> tuple[str, ...]:
    return (f"The findings stand side by side, as they could not be merged: {error.message}",)


def _failures(results: Sequence[StepResult], budget: Budget, wording: Wording) -> list[str]:
    """One sentence for each step that failed, and for each limit that was met."""
    failed = [step for step in results if step.result is None]
    told = [wording.failed.format(step=s.step.id, tool=s.step.tool, reason=plain(s.failure)) for s in failed]
    return [*told, *budget.limits_met]


def _once(results: Sequence[ActionResult]) -> list[ActionResult]:
    """Without those that a second plan only asked for again."""
    return [result for number, result in enumerate(results) if result not in results[:number]]


def _tools_tell(told: Sequence[Evidence], quotes: Sequence[ToolQuote], wording: Wording) -> list[str]:
    """What each tool told, as quotations of it: what the answer uses, else all of it."""
    used = {passage.document: [quote.quote for quote in quotes if quote.tool == passage.document] for passage in told}
    texts = [(passage.document, used[passage.document] or [passage.text]) for passage in told]
    quoted = [(tool, " … ".join(dict.fromkeys(" ".join(text.split()) for text in parts))) for tool, parts in texts]
    return list(dict.fromkeys(wording.tells.format(tool=tool, text=text) for tool, text in quoted))
