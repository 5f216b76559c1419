"""What the API process and the engine process say to each other about packs."""

from __future__ import annotations

import msgspec

from readahead_serving.engine.kv.pack_manifest import DocumentSpan, PackIdentity


class BuildPack(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Compute a pack's KV, write it to `folder` if that can be, and offer it. Answered by `PackReady` or `PackLost`."""

    pack_id: str
    salt: str
    token_ids: list[int]
    identity: PackIdentity
    documents: list[DocumentSpan]
    folder: str = ""
    """Where it goes on disk; empty keeps it in memory only."""
    attach: bool = True
    """Whether to keep it in memory; without, it is only written."""


class AttachPack(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Map a verified pack and offer it. Answered by `PackReady` or `PackLost`."""

    pack_id: str
    salt: str
    folder: str


class DetachPack(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Offer a pack no longer, or end its build. Answered by `PackDetached`."""

    pack_id: str


PackCommand = BuildPack | AttachPack | DetachPack


class PackProgress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How far a build has come."""

    pack_id: str
    tokens_done: int


class PackReady(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A build or an attachment is done."""

    pack_id: str
    attached: bool
    nbytes: int
    """Of keys and values."""
    on_disk: bool
    disk_problem: str = ""
    """Why it is not on disk, where it should be: "disk_full", or another word and what the system said."""
    seconds: float = 0.0
    """What the build took; 0 for an attachment."""
    tokens_computed: int = 0
    """Tokens that went through the model for it."""


class PackLost(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A build or an attachment has come to nothing."""

    pack_id: str
    reason: str


class PackDetached(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The pack is offered no more; sequences that read it keep its memory until they end."""

    pack_id: str


PackEvent = PackProgress | PackReady | PackLost | PackDetached
