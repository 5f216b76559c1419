"""The action that answers from one page of the documents."""

from __future__ import annotations

from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import ActionContext, result_of, write
from readahead_agents.answering.answer import not_covered
from readahead_agents.text import words
from readahead_retrieval.types import Evidence


async def doc_read(context: ActionContext, question: str, page: str) -> ActionResult:
    """Answers the question from the passages of a page, named as it is printed or by its number.

    A document that the question names is read alone; else those come first that have to do with the question.
    """
    task = context.asked_as.get(question, question)
    evidence = sorted(await context.source.on_page(page, question), key=lambda passage: -_shared(question, passage))
    if not evidence:
        *_, answered = not_covered(context.source, task, ())
        return result_of(answered, ())
    return await write(context, task, "answer_user", evidence, context.options(), context.reader)


def _shared(question: str, passage: Evidence) -> int:
    return len(words(question) & words(f"{passage.document} {passage.heading} {passage.text}"))
