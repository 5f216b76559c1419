"""What the knowledge tools return: structured output, whose schemas clients see."""

from __future__ import annotations

from pydantic import BaseModel, Field

from readahead_retrieval.types import Citation, Document, Evidence, Job, KnowledgeBase


def page_uri(document_id: str, page: int) -> str:
    return f"doc://{document_id}/page/{page}"


class KnowledgeBaseInfo(BaseModel):
    """A knowledge base."""

    id: str
    name: str
    documents: int = Field(description="All of them, whatever their state.")
    searchable: int = Field(description="Documents that searches and answers use.")
    uri: str


class DocumentInfo(BaseModel):
    """A document, and how far it has come."""

    id: str
    name: str
    state: str = Field(description="queued, extracting, chunking, embedding, indexing, searchable, failed, cancelled")
    pages: int
    pages_done: int
    pages_unread: list[int] = Field(description="Pages without usable text, 1-based.")
    error_code: str | None = None
    error_message: str | None = None
    uri: str


class JobInfo(BaseModel):
    """The making of a document, from the queue to its end."""

    job_id: str
    position: int | None = Field(description="Place in the queue, 1 is next; null once it is being read.")
    document: DocumentInfo


class KnowledgeBases(BaseModel):
    """Knowledge bases, oldest first; with documents where one was asked for."""

    knowledge_bases: list[KnowledgeBaseInfo]
    documents: list[DocumentInfo] = []
    next_cursor: str | None = Field(default=None, description="Pass it as `cursor` for what follows in the last list.")


class Passage(BaseModel):
    """A passage that a search found."""

    chunk_id: str = Field(description="Names it among the chunks of its document.")
    document_id: str
    document: str
    page: int = Field(description="1-based physical page.")
    page_label: str = Field(description="The page as printed.")
    heading: str
    text: str
    similarity: float = Field(description="Cosine of question and passage, -1 to 1.")
    uri: str


class Passages(BaseModel):
    """Passages, best first."""

    results: list[Passage]
    note: str = Field(description="What to know of the results; says so where there are none.")


class Line(BaseModel):
    """A line that matches."""

    document_id: str
    document: str
    page: int
    line: int = Field(description="1-based line of the page's text.")
    text: str
    uri: str


class Lines(BaseModel):
    """Matching lines, oldest document first."""

    matches: list[Line]
    note: str
    next_cursor: str | None = Field(default=None, description="Pass it as `cursor` for the matches that follow.")


class PageText(BaseModel):
    """The text of a page, or the part of it that fits."""

    page: int
    page_label: str
    text: str
    uri: str


class DocumentPages(BaseModel):
    """Pages of a document, in order."""

    document_id: str
    document: str
    pages_in_document: int
    pages: list[PageText]
    next_cursor: str | None = Field(default=None, description="Pass it as `cursor` to read on.")


class Source(BaseModel):
    """The passage that supports a sentence of the answer."""

    document_id: str
    document: str
    page: int
    page_label: str
    quote: str
    score: float
    uri: str


class GroundedAnswer(BaseModel):
    """An answer from the documents."""

    answer: str
    citations: list[Source]
    in_documents: bool = Field(description="False when the documents do not answer, and the answer says so.")
    notes: list[str] = Field(description="What was left out or went wrong.")
    route: str
    why: str = Field(description="Why this route was taken.")
    estimate_s: float | None = Field(description="Seconds until the first word, as estimated before; null: unknown.")
    facts: dict[str, str | int | float | None] = Field(description="What the route was chosen by; null: not looked at.")
    prompt_tokens: int
    cached_tokens: int = Field(description="Prompt tokens that the model had read before.")
    completion_tokens: int


class Removed(BaseModel):
    """What was deleted."""

    document_id: str
    document: str


def kb_info(kb: KnowledgeBase) -> KnowledgeBaseInfo:
    return KnowledgeBaseInfo(
        id=kb.id, name=kb.name, documents=kb.documents, searchable=kb.searchable, uri=f"kb://{kb.id}"
    )


def document_info(document: Document) -> DocumentInfo:
    return DocumentInfo(
        id=document.id,
        name=document.name,
        state=document.state.value,
        pages=document.pages,
        pages_done=document.pages_done,
        pages_unread=list(document.pages_unread),
        error_code=document.error_code,
        error_message=document.error_message,
        uri=f"doc://{document.id}",
    )


def job_info(job: Job) -> JobInfo:
    return JobInfo(job_id=job.id, position=job.position, document=document_info(job.document))


def passage(found: Evidence) -> Passage:
    return Passage(
        chunk_id=str(found.chunk_id),
        document_id=found.document_id,
        document=found.document,
        page=found.page,
        page_label=found.page_label,
        heading=found.heading,
        text=found.text,
        similarity=round(found.similarity, 4),
        uri=page_uri(found.document_id, found.page),
    )


def source(citation: Citation) -> Source:
    return Source(
        document_id=citation.document_id,
        document=citation.document,
        page=citation.page,
        page_label=citation.page_label,
        quote=citation.quote,
        score=round(citation.score, 4),
        uri=page_uri(citation.document_id, citation.page),
    )
