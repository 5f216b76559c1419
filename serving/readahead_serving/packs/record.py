"""One pack as the API process knows it, and what of that survives a restart."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from readahead_serving.engine.kv.pack_manifest import PackIdentity
from readahead_serving.packs.source import PackSource, PackTokens


class PackState(StrEnum):
    """Where a pack stands."""

    BUILDING = "building"
    """Waiting for its turn, or being computed."""
    RESIDENT = "resident"
    """In memory: questions on it compute their own tokens only."""
    ON_DISK = "on_disk"
    """Ready to be mapped when the next question comes."""
    STALE = "stale"
    """There is no KV that may be used, and `reason` says why; it is built again from its texts."""
    FAILED = "failed"
    """It could not be built, and `reason` says why."""


MAX_METADATA = 16


class PackOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may choose and change."""

    name: str = ""
    ttl_s: float | None = None
    """Seconds after the last question at which it is deleted; None keeps it."""
    pin: bool = False
    metadata: dict[str, str] = {}
    """Its keys name those who have the pack: it is kept for all of them."""

    def asked_again(self, new: PackOptions) -> PackOptions:
        """Asked for once more with options that hold, but for what others were promised, whom only these here name."""
        if self.metadata.keys() <= new.metadata.keys():
            return new
        limits = (self.ttl_s, new.ttl_s)
        return PackOptions(
            name=new.name,
            ttl_s=None if None in limits else max(limit for limit in limits if limit is not None),
            pin=self.pin or new.pin,
            metadata=self.metadata | new.metadata,
        )

    def without(self, others: PackOptions) -> PackOptions:
        """Kept for those whom these do not name."""
        left = {key: value for key, value in self.metadata.items() if key not in others.metadata}
        return msgspec.structs.replace(self, metadata=left)


class SavedPack(msgspec.Struct, frozen=True, kw_only=True):
    """`source.json`: enough to build a pack anew for any model."""

    salt: str
    source: PackSource
    options: PackOptions
    created_at: float
    extends: str = ""


@dataclass(eq=False, slots=True)
class PackRecord:
    """A pack's state; changed by `PackShelf` only."""

    pack_id: str
    salt: str
    source: PackSource
    options: PackOptions
    created_at: float = field(default_factory=time.time)
    extends: str = ""
    """The pack whose tokens it began with, which goes when this one is ready."""
    tokens: PackTokens | None = None
    version: str = ""
    state: PackState = PackState.BUILDING
    reason: str = ""
    """Why it is stale or failed: a stable word, a colon and a sentence."""
    nbytes: int = 0
    tokens_done: int = 0
    on_disk: bool = False
    disk_problem: str = ""
    """Why it is in memory only."""
    pinned: bool = False
    pin_problem: str = ""
    """Why it is not pinned though it should be, with the numbers."""
    hits: int = 0
    used_at: float = field(default_factory=time.time)
    build_s: float | None = None
    tokens_computed: int | None = None
    """Tokens that went through the model for the last build."""

    @property
    def num_tokens(self) -> int:
        return len(self.tokens.token_ids) if self.tokens is not None else 0

    @property
    def expires_at(self) -> float | None:
        return None if self.options.ttl_s is None else self.used_at + self.options.ttl_s

    @property
    def is_ready(self) -> bool:
        return self.state in (PackState.RESIDENT, PackState.ON_DISK)

    def saved(self) -> bytes:
        pack = SavedPack(
            salt=self.salt,
            source=self.source,
            options=self.options,
            created_at=self.created_at,
            extends=self.extends,
        )
        return msgspec.json.encode(pack)

    @classmethod
    def restored(cls, pack_id: str, data: bytes) -> PackRecord:
        """Raises `msgspec.MsgspecError` for what is no saved pack."""
        saved = msgspec.json.decode(data, type=SavedPack)
        return cls(pack_id, saved.salt, saved.source, saved.options, saved.created_at, saved.extends)


def version_of(identity: PackIdentity, token_ids: list[int]) -> str:
    """Names one build: the model it is for and the tokens it holds."""
    tokens = b"".join(token.to_bytes(4, "little") for token in token_ids)
    return hashlib.sha256(msgspec.json.encode(identity) + tokens).hexdigest()[:32]
