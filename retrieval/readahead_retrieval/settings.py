"""Retrieval's settings: one frozen tree, filled once by whoever opens the library."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class RetrievalSettings(BaseModel):
    """`[retrieval]` in readahead.toml, `READAHEAD_RETRIEVAL__…` in the environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    home: Path = Path("~/.readahead")
    """Holds files/ and indexes/, and readahead.db unless `database_url` says otherwise."""
    database_url: str = ""
    """`postgresql://…` for a server (the extra `postgres`), a SQLAlchemy URL; empty takes SQLite in `home`."""
    max_file_bytes: int = Field(default=256 << 20, ge=1)
    """Largest file taken."""
    read_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds that reading one file may take."""
    read_memory_bytes: int = Field(default=1 << 30, ge=128 << 20)
    """Memory that the process reading one file may take."""
    ocr: Literal["auto", "off"] = "auto"
    """`auto` reads pages without usable text with Tesseract, where it is installed; `off` lists them as unread."""
    ocr_languages: str = Field(default="eng+kor", pattern=r"^[A-Za-z0-9_/]+(\+[A-Za-z0-9_/]+)*$")
    """Tesseract's codes, the most frequent first; those that are not installed are left out."""
    ocr_max_pages: int = Field(default=500, ge=1)
    """Pages of one file that are recognised; the others are listed as unread."""
    ocr_page_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds that recognising one page may take."""
    chunk_tokens: int = Field(default=220, ge=16)
    """Tokens of the embedding model in a chunk at most; its window bounds them too. Another size cuts and embeds every
    document anew."""
    chunk_overlap_tokens: int = Field(default=40, ge=0)
    """Tokens that a chunk repeats of the one before, in whole sentences."""
    embed_batch: int = Field(default=32, ge=1)
    """Chunks embedded, and committed, at a time."""
    embed_attempts: int = Field(default=6, ge=1)
    """Times that a batch is tried while the embedding service does not answer."""
    embed_backoff_s: float = Field(default=1.0, gt=0)
    """Seconds before the second try; doubled before each one after."""
    embedding_query_prefix: str = ""
    """What the embedding model wants before a question, with its last space: "query: " for E5."""
    embedding_passage_prefix: str = ""
    """What it wants before a passage; changing a prefix embeds everything anew."""
    ingest_concurrency: int = Field(default=2, ge=1)
    """Documents ingested at a time."""
    top_k: int = Field(default=6, ge=1, le=50)
    """Passages that a question is answered from."""
    per_document: int = Field(default=0, ge=0, le=50)
    """Passages of one document among those of a search or an answer from several; 0 for any number."""
    candidates: int = Field(default=40, ge=1)
    """Passages taken from each engine before fusion."""
    reranker_model: str = ""
    """Folder or hub name of a cross-encoder that reads the best passages once more; empty does without."""
    rerank_candidates: int = Field(default=20, ge=1, le=200)
    """Passages that it reads for each question."""
    score_floor: float = Field(default=0.85, ge=0, le=2)
    """Below it a question counts as not covered by the documents: cosine of the best passage plus the share of the
    question's key terms that it holds, 0 to 2."""

    @field_validator("database_url")
    @classmethod
    def _with_driver(cls, url: str) -> str:
        """Names our driver where none is named, and refuses early what would fail deep within a start."""
        scheme, separator, rest = url.partition("://")
        if scheme in {"postgres", "postgresql"}:
            scheme = "postgresql+asyncpg"
        if scheme == "postgresql+asyncpg" and find_spec("asyncpg") is None:
            raise ValueError("PostgreSQL needs its driver: pip install 'readahead[postgres]'")
        return f"{scheme}{separator}{rest}"
