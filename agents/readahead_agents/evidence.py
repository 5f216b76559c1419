"""The seam to knowledge: something that finds evidence for a question and reads pages for citations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from readahead_retrieval.types import Citation, Evidence


class EvidenceSource(Protocol):
    """One tenant's view of one knowledge base; built by the gateway, so that no argument can change the tenant."""

    @property
    def name(self) -> str:
        """The knowledge base's name, for prompts and messages."""
        ...

    @property
    def link_hosts(self) -> tuple[str, ...]:
        """Hosts that links and images in answers may lead to, beside this service."""
        ...

    async def search(self, query: str, top_k: int | None = None) -> list[Evidence]:
        """The best passages, best first; empty when nothing matches. Raises `EmptyKnowledgeBase`.

        A query that names a page gets that page, and one that names a file is searched for in that file.
        """
        ...

    async def on_page(self, page: str, question: str) -> list[Evidence]:
        """The passages of the page that is printed, else numbered, so, in reading order: of the documents that the
        question names, else of all; empty where none has it."""
        ...

    def missing_page(self, question: str) -> tuple[str, str] | None:
        """The document and the page that the question names, where it was looked for and that document lacks it."""
        ...

    async def holding(self, text: str) -> list[Evidence]:
        """Passages that hold a text letter by letter, in reading order. Raises `QueryError` for too long a one."""
        ...

    async def cite(self, answer: str, evidence: Sequence[Evidence]) -> list[Citation]:
        """Matches the sentences of an answer to the evidence it was written from."""
        ...

    async def nearness(self, question: str, texts: Sequence[str]) -> list[float]:
        """The cosine of each short text with the question; zeros where they cannot be compared by meaning."""
        ...

    def covers(self, question: str, evidence: Sequence[Evidence]) -> bool:
        """Whether the evidence bears on the question enough: else the documents do not answer it."""
        ...
