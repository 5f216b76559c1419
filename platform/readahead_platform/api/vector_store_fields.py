"""The fields that OpenAI's vector stores, their files and batches have in common, with OpenAI's bounds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from readahead_retrieval.ingest.intake import NewFile
from readahead_retrieval.types import FileCounts

MAX_PAIRS = 16
Key = Annotated[str, Field(min_length=1, max_length=64)]
Text = Annotated[str, Field(max_length=512)]
Metadata = Annotated[dict[Key, Text], Field(max_length=MAX_PAIRS)]
Attributes = Annotated[
    dict[Key, Annotated[bool, Field(strict=True)] | Annotated[float, Field(strict=True, allow_inf_nan=False)] | Text],
    Field(max_length=MAX_PAIRS),
]


class ExpiresAfter(BaseModel):
    """How long a store is kept after it was last used."""

    anchor: Literal["last_active_at"]
    days: int = Field(ge=1, le=365)


class StaticChunks(BaseModel):
    max_chunk_size_tokens: int = Field(ge=100, le=4096)
    chunk_overlap_tokens: int = Field(ge=0)

    @model_validator(mode="after")
    def _overlap_is_at_most_half(self) -> StaticChunks:
        if 2 * self.chunk_overlap_tokens > self.max_chunk_size_tokens:
            raise ValueError("chunk_overlap_tokens must not exceed half of max_chunk_size_tokens")
        return self


class ChunkingStrategy(BaseModel):
    type: Literal["auto", "static"]
    static: StaticChunks | None = None

    @model_validator(mode="after")
    def _static_says_how(self) -> ChunkingStrategy:
        if (self.type == "static") != (self.static is not None):
            raise ValueError("a strategy of type static, and no other, has the field static")
        return self


class FileRequest(BaseModel):
    """A file to be taken into a store; `password` and `replace` are ours."""

    model_config = ConfigDict(extra="ignore")

    file_id: str
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None
    password: SecretStr | None = None
    replace: bool = False


def new_file(body: FileRequest) -> NewFile:
    """What the library takes."""
    static = body.chunking_strategy.static if body.chunking_strategy else None
    return NewFile(
        body.file_id,
        password=body.password.get_secret_value() if body.password else None,
        attributes=body.attributes,
        chunk_tokens=static.max_chunk_size_tokens if static else None,
        chunk_overlap_tokens=static.chunk_overlap_tokens if static else None,
        replaces=body.replace,
    )


def file_counts(counts: FileCounts) -> dict[str, Any]:
    return {
        "in_progress": counts.in_progress,
        "completed": counts.completed,
        "failed": counts.failed,
        "cancelled": counts.cancelled,
        "total": counts.total,
    }
