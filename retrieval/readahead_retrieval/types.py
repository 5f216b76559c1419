"""The nouns that the whole package shares. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from readahead_retrieval.pdf.version import READER_VERSION


class PageQuality(StrEnum):
    """What the text of a page is worth, and where it is from."""

    OK = "ok"
    """The file's own text."""
    RECOGNISED = "recognised"
    """Text recognition's, from the page's picture."""
    NEEDS_OCR = "needs_ocr"
    GARBAGE = "garbage"
    BLANK = "blank"


class DocumentState(StrEnum):
    """Where a document stands on its way to being searchable; the last three are final."""

    QUEUED = "queued"
    EXTRACTING = "extracting"
    CHUNKING = "chunking"
    EMBEDDING = "embedding"
    INDEXING = "indexing"
    SEARCHABLE = "searchable"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on a page as it is shown: 0–1 in the crop box, rotation applied, origin top left."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a page: `page.text[start:end]`, and where it stands."""

    start: int
    end: int
    box: Box


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading line of a page: `page.text[start:end]`."""

    start: int
    end: int
    level: int
    """1 is the highest; judged from type size and weight."""


@dataclass(frozen=True, slots=True)
class Page:
    """One physical page, cleaned: offsets refer to `text` as it is here."""

    number: int
    """1-based physical page."""
    label: str
    """The printed page label ("iii", "12"); the number where the file has none."""
    text: str
    words: Sequence[Word]
    quality: PageQuality
    width: float
    """Of the shown page, in points."""
    height: float
    headings: tuple[Heading, ...] = ()
    """In order of the text; chunks begin at them and carry their names."""


@dataclass(frozen=True, slots=True)
class PageSpan:
    """A run of one page's text."""

    page: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage that is embedded, indexed and quoted as one."""

    text: str
    spans: tuple[PageSpan, ...]
    """Where the text stands, in reading order."""
    heading: str = ""
    """The heading it stands under; embedded with it, not part of `text`."""

    @property
    def first_page(self) -> int:
        return self.spans[0].page

    @property
    def last_page(self) -> int:
        return self.spans[-1].page


@dataclass(frozen=True, slots=True)
class Evidence:
    """A chunk that a search found."""

    chunk_id: int
    document_id: str
    document: str
    """The document's name as uploaded."""
    page: int
    """The first page of the chunk, 1-based."""
    last_page: int
    page_label: str
    heading: str
    text: str
    score: float
    """Fused score, higher is better; comparable within one result list only."""
    similarity: float
    """Cosine of question and chunk by the embedding model, −1 to 1; what score floors compare."""
    ranks: dict[str, int] = field(default_factory=dict)
    """1-based rank in each engine that found it: "dense", "lexical"."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A sentence of an answer, matched to the passage that supports it."""

    document_id: str
    document: str
    page: int
    page_label: str
    quote: str
    """A run of the page's text."""
    score: float
    """0–1."""
    boxes: tuple[Box, ...]
    """The quote's lines on the page."""
    answer_start: int
    """The sentence in the answer, as offsets."""
    answer_end: int


Attributes = Mapping[str, str | float | bool]
"""What people attach to a file in a knowledge base, and searches filter by."""


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Files of a knowledge base or of a batch, by how far they have come."""

    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        return self.in_progress + self.completed + self.failed + self.cancelled


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """A named set of documents of one tenant; the OpenAI API calls it a vector store."""

    id: str
    """"vs_…"."""
    tenant: str
    name: str
    """Others may bear it too; where a name is taken for an id, the oldest is meant."""
    created_at: datetime
    documents: int
    """All of them, whatever their state."""
    searchable: int
    bytes: int
    """Of all documents; files of the same bytes count once."""
    files: FileCounts
    metadata: Mapping[str, str]
    last_active_at: datetime
    """When it was last used; kept for those that expire, else when it was made."""
    expires_after_days: int | None = None
    owns_name: bool = True
    """Whether its name means it: it is the oldest that bears it."""

    @property
    def expires_at(self) -> datetime | None:
        days = self.expires_after_days
        return None if days is None else self.last_active_at + timedelta(days=days)

    @property
    def expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Uploaded bytes of one tenant."""

    id: str
    """"file-…"."""
    tenant: str
    name: str
    bytes: int
    sha256: str
    purpose: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Document:
    """A file in a knowledge base, and how far it has come."""

    id: str
    """"doc_…"."""
    kb_id: str
    file_id: str
    name: str
    state: DocumentState
    created_at: datetime
    pages: int
    """Pages in the file; 0 until it was opened."""
    pages_done: int
    """Pages read so far."""
    pages_unread: tuple[int, ...]
    """Pages without usable text (scanned, garbled), 1-based."""
    chunks: int
    chunks_done: int
    """Chunks embedded so far."""
    error_code: str | None = None
    error_message: str | None = None
    error_retryable: bool = False
    chunk_tokens: int | None = None
    """The largest chunk, as asked for with the file; none takes the settings'."""
    chunk_overlap_tokens: int | None = None
    started_at: datetime | None = None
    """When a worker last took it up."""
    finished_at: datetime | None = None
    notes: tuple[str, ...] = ()
    """What the file holds and is not read (attached files, XFA forms) and which pages were recognised, in sentences."""

    revision: int = 0
    """Grows when its text changes, as by disabled chunks: packs hold it as of one of these."""
    reader: int = 0
    """Version of the reader that read its pages."""

    @property
    def finished(self) -> bool:
        return self.state in {DocumentState.SEARCHABLE, DocumentState.FAILED, DocumentState.CANCELLED}

    @property
    def outdated(self) -> bool:
        """Whether an older reader read it: read anew it may say more."""
        return self.state in {DocumentState.SEARCHABLE, DocumentState.FAILED} and self.reader < READER_VERSION

    @property
    def cancellable(self) -> bool:
        """Once it is being indexed it ends within seconds, searchable."""
        return not self.finished and self.state is not DocumentState.INDEXING


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document and all that was read of it, pages in order."""

    document: Document
    text: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file in a knowledge base; files of the same bytes are the same document there."""

    kb_id: str
    file_id: str
    name: str
    bytes: int
    attributes: Attributes
    created_at: datetime
    document: Document


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Files that were added to a knowledge base in one go."""

    id: str
    """"vsfb_…"."""
    kb_id: str
    created_at: datetime
    cancelled: bool
    files: FileCounts
    """Those that still are in the knowledge base."""


@dataclass(frozen=True, slots=True)
class Job:
    """The making of one document, from the queue to its end; as durable as the document."""

    id: str
    """"job_…"."""
    document: Document
    position: int | None
    """1 is next; None once a worker has it."""


@dataclass(frozen=True, slots=True)
class ChunkView:
    """A chunk as people look at it."""

    id: int
    document_id: str
    ordinal: int
    """0-based, in reading order."""
    text: str
    heading: str
    first_page: int
    last_page: int
    disabled: bool
    """Never found, until it is enabled again."""
    embedded: bool
