"""A retrieval data set in BEIR's layout: `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv` in a folder.

The layout is that of Thakur and others, "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation" (2021).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readahead_retrieval.errors import QuestionsInvalid


@dataclass(frozen=True, slots=True)
class Dataset:
    name: str
    passages: dict[str, str]
    """Texts by id, each under its title."""
    queries: dict[str, str]
    """Those with judgements."""
    relevant: dict[str, dict[str, float]]
    """By query: the gains of the passages judged relevant, each above 0."""


def is_dataset(folder: Path) -> bool:
    return (folder / "corpus.jsonl").is_file()


def read_dataset(folder: Path) -> Dataset:
    """Reads a whole data set into memory.

    Raises:
        QuestionsInvalid: a file is missing, a line is not what it should be, or a judgement names what isn't there.
    """
    passages = {row["_id"]: _passage(row) for row in _rows(folder / "corpus.jsonl")}
    queries = {row["_id"]: row["text"] for row in _rows(folder / "queries.jsonl")}
    relevant = _judgements(folder / "qrels" / "test.tsv")
    unknown = [q for q in relevant if q not in queries] + [p for r in relevant.values() for p in r if p not in passages]
    if unknown:
        raise QuestionsInvalid(f"{folder / 'qrels' / 'test.tsv'} names {unknown[0]!r}, which is nowhere in {folder}.")
    return Dataset(folder.resolve().name, passages, {q: queries[q] for q in relevant}, relevant)


def _passage(row: dict[str, Any]) -> str:
    return f"{row.get('title') or ''}\n{row['text']}".strip()


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_lines(path), start=1):
        try:
            row = json.loads(line)
            # not texts, or half of a surrogate pair, which JSON can hold and nothing can search for
            "".join((row["_id"], row["text"], row.get("title") or "")).encode()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:  # the last: nested too deep
            raise QuestionsInvalid(f'{path}:{number} is no object with texts "_id" and "text": {error!r}.') from error
        yield row


def _judgements(path: Path) -> dict[str, dict[str, float]]:
    relevant: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for number, line in enumerate(_lines(path)[1:], start=2):
        try:
            query, passage, score = line.split("\t")
            gain = float(score)
        except ValueError as error:
            raise QuestionsInvalid(f"{path}:{number} is not query-id, corpus-id, score: {error}.") from error
        if gain > 0:
            relevant[query][passage] = gain
    if not relevant:
        raise QuestionsInvalid(f"{path} judges no passage relevant.")
    return dict(relevant)


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionsInvalid(f"{path} cannot be read: {error}.") from error
