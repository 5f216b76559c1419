"""The bodies of /v1/packs, and how a pack is shown."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from readahead_serving.api.fields import Text
from readahead_serving.packs.estimate import PackEstimate
from readahead_serving.packs.record import MAX_METADATA, PackOptions, PackRecord
from readahead_serving.packs.source import PackDocument, PackMessage, PackSource

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
Seconds = Annotated[float, Field(gt=0, le=10 * 365 * 86400)]
Metadata = Annotated[dict[str, Annotated[Text, Field(max_length=512)]], Field(max_length=MAX_METADATA)]


class PackModel(BaseModel):
    """Root of these bodies: our own API refuses what it does not know, so that a misspelt field is not ignored."""

    model_config = ConfigDict(extra="forbid")


class PackMessageFields(PackModel):
    role: str
    content: Text

    @model_validator(mode="after")
    def _known(self) -> PackMessageFields:
        if self.role not in _ROLES:
            raise ValueError(f"role must be developer, system, user or assistant, not {self.role!r}")
        return self

    def message(self) -> PackMessage:
        return PackMessage(_ROLES[self.role], self.content)


class DocumentFields(PackModel):
    title: Text = Field(default="", max_length=1000)
    text: Text = Field(min_length=1)

    def document(self) -> PackDocument:
        return PackDocument(self.title, self.text)


class PackRequest(PackModel):
    """What a pack is made from, and how it is kept."""

    model: str | None = None
    """A served language model; the only one where there is none."""
    name: Text = Field(default="", max_length=200)
    messages: list[PackMessageFields] = []
    """What requests on the pack begin with."""
    documents: list[DocumentFields] = []
    """Texts that stand at the end of the system message."""
    ttl: Seconds | None = None
    """Seconds after the last question at which the pack is deleted."""
    pin: bool = False
    metadata: Metadata = {}
    dry_run: bool = False
    """Only tell what it would cost."""

    @model_validator(mode="after")
    def _has_something(self) -> PackRequest:
        if not self.messages and not self.documents:
            raise ValueError("give `messages`, `documents` or both")
        return self

    def source(self) -> PackSource:
        return PackSource(
            messages=tuple(message.message() for message in self.messages),
            documents=tuple(document.document() for document in self.documents),
        )

    def options(self) -> PackOptions:
        return PackOptions(name=self.name, ttl_s=self.ttl, pin=self.pin, metadata=self.metadata)


class PackPatch(PackModel):
    """Fields that are left out stay as they are; a `ttl` of null keeps the pack for good."""

    name: Text | None = Field(default=None, max_length=200)
    ttl: Seconds | None = None
    pin: bool | None = None
    metadata: Metadata | None = None

    def applied_to(self, options: PackOptions) -> PackOptions:
        return PackOptions(
            name=options.name if self.name is None else self.name,
            ttl_s=self.ttl if "ttl" in self.model_fields_set else options.ttl_s,
            pin=options.pin if self.pin is None else self.pin,
            metadata=options.metadata if self.metadata is None else self.metadata,
        )


class DocumentsRequest(PackModel):
    documents: list[DocumentFields] = Field(min_length=1)
    metadata: Metadata | None = None
    """Of the new pack; that of the old one where there is none."""


def pack_object(record: PackRecord) -> dict[str, Any]:
    """A pack as clients see it: never its texts, which can be large."""
    expires_at = record.expires_at
    return {
        "id": record.pack_id,
        "object": "pack",
        "name": record.options.name,
        "created_at": int(record.created_at),
        "state": record.state.value,
        "reason": record.reason or None,
        "version": record.version or None,
        "tokens": record.num_tokens,
        "tokens_done": record.tokens_done,
        "progress": record.tokens_done / record.num_tokens if record.num_tokens else 0.0,
        "tokens_computed": record.tokens_computed,
        "bytes": record.nbytes,
        "build_s": record.build_s,
        "on_disk": record.on_disk,
        "disk_problem": record.disk_problem or None,
        "pin": record.options.pin,
        "pinned": record.pinned,
        "pin_problem": record.pin_problem or None,
        "ttl": record.options.ttl_s,
        "expires_at": None if expires_at is None else int(expires_at),
        "used_at": int(record.used_at),
        "hits": record.hits,
        "extends": record.extends or None,
        "metadata": record.options.metadata,
        "documents": [
            {"title": span.title, "sha256": span.sha256, "first_token": span.first_token, "end_token": span.end_token}
            for span in (record.tokens.documents if record.tokens is not None else ())
        ],
    }


def estimate_object(estimated: PackEstimate, window: int) -> dict[str, Any]:
    return {
        "object": "pack.estimate",
        "tokens": estimated.tokens,
        "bytes": estimated.nbytes,
        "window": window,
        "build_s": estimated.build_s,
        "break_even_questions": estimated.break_even_questions,
    }
