"""The action that gives the tables on the pages found, cell by cell. No model writes in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from readahead_agents.actions.result import ActionResult, Table
from readahead_agents.actions.writing import ActionContext, evidence_for
from readahead_agents.answering.passages import where
from readahead_agents.answering.wording import Wording, wording_of
from readahead_agents.text import words
from readahead_retrieval.types import Evidence

CELL = "|"
MAX_TABLES = 4
MAX_ROWS = 40


async def extract_table(context: ActionContext, question: str, earlier: Sequence[ActionResult]) -> ActionResult:
    """The tables of the passages behind `earlier`, or of those found; those that name what is asked for come first."""
    evidence = await evidence_for(context, question, earlier)
    found = [(passage, table) for passage in evidence for table in tables(passage)]
    asked, wording = words(question), wording_of(question)
    found.sort(key=lambda each: -len(words(str(each[1])) & asked))
    chosen = found[:MAX_TABLES]
    if not chosen:
        return ActionResult(text=wording.no_table, covered=False, evidence=tuple(evidence), citations=())
    text = "\n\n".join(_shown(wording, passage, table) for passage, table in chosen)
    notes = (wording.more_tables.format(count=len(found) - MAX_TABLES),) if len(found) > MAX_TABLES else ()
    return ActionResult(
        text=text,
        evidence=tuple({passage.chunk_id: passage for passage, _ in chosen}.values()),
        citations=tuple(await context.source.cite(text, [passage for passage, _ in chosen])),
        tables=tuple(table for _, table in chosen),
        notes=notes,
    )


def tables(passage: Evidence) -> Iterator[Table]:
    """Runs of two rows and more; the first row is the header."""
    for is_table, lines in groupby(passage.text.splitlines(), lambda line: CELL in line):
        rows = [tuple(cell.strip() for cell in line.strip().strip(CELL).split(CELL)) for line in lines]
        if is_table and len(rows) > 1:
            columns, *body = rows
            yield Table(
                document=passage.document,
                document_id=passage.document_id,
                page=passage.page,
                columns=columns,
                rows=tuple(body[:MAX_ROWS]),
            )


def _shown(wording: Wording, passage: Evidence, table: Table) -> str:
    rows = "\n".join(f" {CELL} ".join(row) for row in (table.columns, *table.rows))
    return f"{where(passage, wording)}:\n{rows}"
