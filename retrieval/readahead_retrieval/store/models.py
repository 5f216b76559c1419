"""The tables. The database is the truth: an index is made from it and can always be made again."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

RowId = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows only in a column declared INTEGER


def utc_now() -> datetime:
    return datetime.now(UTC)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC time on every database: SQLite keeps no zone and returns naive values."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        assert value is None or value.tzinfo is not None, "times are aware"
        return value.astimezone(UTC) if value else None

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class KnowledgeBaseRow(Base):
    __tablename__ = "knowledge_bases"
    __table_args__ = (Index(None, "tenant", "name"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(200))
    name: Mapped[str] = mapped_column(String(255))
    """Not unique: OpenAI's vector stores are told apart by id; a name stands for the oldest that bears it."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    details: Mapped[dict[str, str]] = mapped_column(JSON)
    """The API's `metadata`."""
    expires_after_days: Mapped[int | None]
    last_active_at: Mapped[datetime] = mapped_column(UtcDateTime)
    """Kept for those that expire; the others' is when they were made."""


class FileRow(Base):
    __tablename__ = "files"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(200), index=True)
    name: Mapped[str] = mapped_column(String(1000))
    bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))
    purpose: Mapped[str] = mapped_column(String(60))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class DocumentRow(Base):
    __tablename__ = "documents"
    __table_args__ = (UniqueConstraint("kb_id", "sha256"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    kb_id: Mapped[str] = mapped_column(ForeignKey("knowledge_bases.id", ondelete="CASCADE"))
    file_id: Mapped[str] = mapped_column(String(40))
    """The oldest of its attachments' files, from which it has its name; changes when that one is deleted."""
    name: Mapped[str] = mapped_column(String(1000))
    sha256: Mapped[str] = mapped_column(String(64))
    """Of the bytes: with the knowledge base, the document's identity; a reading that is to take a document's place
    bears that one's id instead, so that each has one at most."""
    sealed_password: Mapped[bytes | None] = mapped_column(LargeBinary)
    """Kept, because pages are read again after a crash and rendered whenever a citation is opened; see seal.py."""
    replaces: Mapped[bool]
    """Whether it takes the place of those of its name once it is searchable."""
    chunk_tokens: Mapped[int | None]
    """As asked for; none takes the settings'."""
    chunk_overlap_tokens: Mapped[int | None]
    state: Mapped[str] = mapped_column(String(20))
    published: Mapped[bool]
    """Whether the current generation holds it; the state may have moved on, as while it is embedded anew."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When a worker last took it up."""
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    pages: Mapped[int]
    pages_done: Mapped[int]
    pages_unread: Mapped[bytes] = mapped_column(LargeBinary)
    notes: Mapped[list[str]] = mapped_column(JSON)
    """What the file holds and is not read, in sentences."""
    chunks: Mapped[int]
    chunks_done: Mapped[int]
    embedding_model: Mapped[str | None] = mapped_column(String(400))
    """The model that made the chunks' vectors."""
    error_code: Mapped[str | None] = mapped_column(String(40))
    error_message: Mapped[str | None] = mapped_column(Text)
    error_retryable: Mapped[bool]
    revision: Mapped[int] = mapped_column(server_default="0", default=0)
    """How often its text changed, as when chunks were disabled: packs hold it as of one of these."""
    reader: Mapped[int] = mapped_column(server_default="0", default=0)
    """Version of the reader that read its pages; see pdf/version.py."""
    rereads: Mapped[str | None] = mapped_column(String(40), index=True)
    """The document whose place it takes once it is ready, and in whose name it is known until then; see rereads.py."""
    cut: Mapped[str | None] = mapped_column(String(80))
    """How its chunks were cut, see ingest/cut.py; none where they are older than that is kept."""
    shares_pages: Mapped[bool] = mapped_column(server_default=false(), default=False)
    """Whether it is cut from the pages of the document whose place it takes, and not from its file."""


class AttachmentRow(Base):
    """A file in a knowledge base. Those of the same bytes are one document there, each with attributes of its own."""

    __tablename__ = "attachments"

    kb_id: Mapped[str] = mapped_column(ForeignKey("knowledge_bases.id", ondelete="CASCADE"), primary_key=True)
    file_id: Mapped[str] = mapped_column(ForeignKey("files.id", ondelete="CASCADE"), primary_key=True, index=True)
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"), index=True)
    attributes: Mapped[dict[str, str | float | bool]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class FileBatchRow(Base):
    __tablename__ = "file_batches"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    kb_id: Mapped[str] = mapped_column(ForeignKey("knowledge_bases.id", ondelete="CASCADE"), index=True)
    cancelled: Mapped[bool]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class BatchFileRow(Base):
    __tablename__ = "batch_files"

    batch_id: Mapped[str] = mapped_column(ForeignKey("file_batches.id", ondelete="CASCADE"), primary_key=True)
    file_id: Mapped[str] = mapped_column(ForeignKey("files.id", ondelete="CASCADE"), primary_key=True, index=True)


class RemovedDocumentRow(Base):
    """What old chats still cite: that it was there, and is gone."""

    __tablename__ = "removed_documents"
    __table_args__ = (Index(None, "tenant", "removed_at"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(200))
    name: Mapped[str] = mapped_column(String(1000))
    removed_at: Mapped[datetime] = mapped_column(UtcDateTime)


class WriteProbeRow(Base):
    """One row, written now and then to see that writing works."""

    __tablename__ = "write_probe"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    written_at: Mapped[datetime] = mapped_column(UtcDateTime)


class PageRow(Base):
    __tablename__ = "pages"

    document_id: Mapped[str] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    label: Mapped[str] = mapped_column(String(200))
    text: Mapped[str] = mapped_column(Text)
    words: Mapped[bytes] = mapped_column(LargeBinary)
    """See codec.py; apart from the headings, because chunking needs those only."""
    headings: Mapped[bytes] = mapped_column(LargeBinary)
    quality: Mapped[str] = mapped_column(String(20))
    width: Mapped[float]
    height: Mapped[float]


class ChunkRow(Base):
    __tablename__ = "chunks"
    # AUTOINCREMENT: an id is never given twice, so an old index can never point at a newer text.
    __table_args__ = (UniqueConstraint("document_id", "ordinal"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"))
    ordinal: Mapped[int]
    text: Mapped[str] = mapped_column(Text)
    heading: Mapped[str] = mapped_column(Text)
    spans: Mapped[bytes] = mapped_column(LargeBinary)
    first_page: Mapped[int]
    last_page: Mapped[int]
    disabled: Mapped[bool] = mapped_column(server_default=false(), default=False)
    """Taken out of answers by a person."""
    vector: Mapped[bytes | None] = mapped_column(LargeBinary)
    """float32, little-endian, length 1; none until embedded."""


class JobRow(Base):
    __tablename__ = "jobs"
    __table_args__ = (Index(None, "state", "id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"), unique=True)
    state: Mapped[str] = mapped_column(String(20))
    """queued, running; a finished job's row is gone, its outcome is the document's."""
    attempts: Mapped[int]
    """Starts so far: a file that takes the process down with it is not tried for ever."""
    lease_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class GenerationRow(Base):
    __tablename__ = "generations"
    __table_args__ = (Index(None, "kb_id", "id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    kb_id: Mapped[str] = mapped_column(ForeignKey("knowledge_bases.id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(String(60), unique=True)
    """The folder's name; the knowledge base's newest row is its current generation."""
    manifest_sha256: Mapped[str] = mapped_column(String(64))
    chunks: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
