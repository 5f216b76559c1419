"""The lexical side: BM25 over our own terms, in tantivy.

English words are reduced to their stems here, and only here: "inhibits" finds "inhibition", while citations, which
compare wording, keep the words as they stand.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import tantivy

from readahead_retrieval.index.analysis import query_terms, terms
from readahead_retrieval.index.dense import Hit
from readahead_retrieval.index.part import link_or_copy

MAX_QUERY_TERMS = 64
_HEAP_BYTES = 64_000_000


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("chunk", stored=True, indexed=True, fast=True)
    builder.add_text_field("document", stored=False, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("body", stored=False, tokenizer_name="terms", index_option="freq")
    return builder.build()


def _analyzer() -> tantivy.TextAnalyzer:
    """Our terms are separated by spaces; Porter's second stemmer (Snowball) leaves other scripts alone."""
    stemmer = tantivy.Filter.stemmer("english")
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(stemmer).build()


def _open(folder: Path) -> tantivy.Index:
    index = tantivy.Index(_schema(), path=str(folder))
    # After every opening: a missing tokenizer would be noticed by the first query only.
    index.register_tokenizer("terms", _analyzer())
    return index


class LexicalWriter:
    """Writes an index into a folder that is not there yet. One thread: writing is bound by our analysis.

    Args:
        base: Folder of a published index to begin with; its files are shared, for tantivy never writes one twice.
    """

    def __init__(self, folder: Path, base: Path | None = None) -> None:
        folder.mkdir(parents=True)
        if base is not None:
            _share(base, folder)
        index = _open(folder)
        self._schema = index.schema
        self._writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)

    def add(self, chunk_id: int, document_id: str, text: str) -> None:
        document = tantivy.Document()
        document.add_unsigned("chunk", chunk_id)
        document.add_text("document", document_id)
        document.add_text("body", " ".join(terms(text)))
        self._writer.add_document(document)

    def remove(self, chunk_ids: Sequence[int]) -> None:
        """Hides them; their bytes go when tantivy next merges the segment that holds them."""
        for chunk_id in chunk_ids:
            # By query: deleting by term takes the number for a signed one, and finds nothing.
            self._writer.delete_documents_by_query(tantivy.Query.term_query(self._schema, "chunk", chunk_id))

    def finish(self) -> None:
        """Commits; the writer is used up."""
        self._writer.commit()
        self._writer.wait_merging_threads()


def _share(base: Path, folder: Path) -> None:
    for path in base.iterdir():
        if path.suffix == ".json":  # the list of segments, which the next commit replaces
            shutil.copyfile(path, folder / path.name)
        elif path.suffix != ".lock":
            link_or_copy(path, folder / path.name)


class LexicalIndex:
    """Read-only; safe to search from several threads."""

    def __init__(self, folder: Path) -> None:
        self._index = _open(folder)
        self._searcher = self._index.searcher()
        self._analyzer = _analyzer()

    @property
    def count(self) -> int:
        return int(self._searcher.num_docs)

    def search(self, query: str, limit: int, documents: Sequence[str] | None = None) -> list[Hit]:
        """Best first by BM25; a passage without any of the query's terms is no hit."""
        stems = self._analyzer.analyze(" ".join(query_terms(query)))
        wanted = list(dict.fromkeys(stems))[:MAX_QUERY_TERMS]
        if not wanted or limit == 0 or (documents is not None and not documents):
            return []
        # Built from terms, never parsed: what a user types is no query syntax.
        built = self._any_of("body", wanted)
        if documents is not None:
            # A set and not a clause for each: what a filter lets through may be every document there is.
            chosen = tantivy.Query.term_set_query(self._index.schema, "document", list(documents))
            only = tantivy.Query.const_score_query(chosen, 0.0)
            built = tantivy.Query.boolean_query([(tantivy.Occur.Must, built), (tantivy.Occur.Must, only)])
        hits = self._searcher.search(built, limit=limit, count=False).hits
        return [Hit(int(self._searcher.doc(address)["chunk"][0]), float(score)) for score, address in hits]

    def _any_of(self, field: str, values: Sequence[str]) -> tantivy.Query:
        term = tantivy.Query.term_query
        clauses = [(tantivy.Occur.Should, term(self._index.schema, field, v, index_option="freq")) for v in values]
        return tantivy.Query.boolean_query(clauses)
