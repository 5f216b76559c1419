"""What stands beside a pack's blocks on disk: whose KV they are, how they lie, and how to tell that they are whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

FORMAT_VERSION = 1
PAGE_BYTES = 4096
"""Blocks begin at multiples of it, so that each can be mapped."""
LAYOUT = "layer:keys,values:(kv_heads,tokens,head_dim):little"
BYTES_LAYOUT = (
    "layer:keys,key_scales,values,value_scales:int8(kv_heads,tokens,head_dim),f32(kv_heads,groups of 64,head_dim),"
    "int8(kv_heads,tokens,head_dim),f32(kv_heads,tokens):little"
)
"""Of packs whose keys and values are bytes: see `pack_bytes`."""
MANIFEST, TOKENS, BLOCKS = "manifest.json", "tokens.i32", "kv.bin"
_READ_BYTES = 1 << 20


class PackIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that keys and values depend on beside the tokens: KV of another identity is another model's."""

    model: str
    tokenizer: str
    template: str
    rope: str
    dtype: str
    weights: str = ""
    """How the weights are held, where it is not `dtype`."""
    layout: str = LAYOUT


class Block(msgspec.Struct, frozen=True, array_like=True):
    """A run of bytes of the block file."""

    offset: int
    nbytes: int
    sha256: str


class DocumentSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Where a document lies in a pack."""

    title: str
    sha256: str
    """Of the document's text in UTF-8."""
    first_token: int
    end_token: int
    """One past its last token."""


class PackManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a pack's folder. Blocks are the parts of a layer, layer by layer."""

    format: int
    identity: PackIdentity
    num_tokens: int
    num_kv_heads: int
    head_dim: int
    tokens_sha256: str
    documents: list[DocumentSpan]
    blocks: list[Block]

    @property
    def block_file_bytes(self) -> int:
        return max(block.offset + block.nbytes for block in self.blocks)

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values, scales included."""
        return sum(block.nbytes for block in self.blocks)

    @property
    def is_bytes(self) -> bool:
        return self.identity.layout == BYTES_LAYOUT

    @property
    def parts(self) -> tuple[str, ...]:
        """The blocks of each layer, in order."""
        return ("keys", "key scales", "values", "value scales") if self.is_bytes else ("keys", "values")


class _Sealed(msgspec.Struct, frozen=True):
    """The manifest file: the digest is of `manifest`'s bytes exactly as they stand."""

    sha256: str
    manifest: msgspec.Raw


class PackRefused(Exception):
    """A pack on disk that must not be read. `code` names why: damaged, format, or the part of the identity."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def encode_manifest(manifest: PackManifest) -> bytes:
    raw = msgspec.json.encode(manifest)
    return msgspec.json.encode(_Sealed(hashlib.sha256(raw).hexdigest(), msgspec.Raw(raw)))


def read_manifest(folder: Path) -> PackManifest:
    """Reads a manifest and proves it whole.

    Raises:
        PackRefused: It is missing, damaged or of another format.
    """
    try:
        sealed = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=_Sealed)
        raw = bytes(sealed.manifest)
        if hashlib.sha256(raw).hexdigest() != sealed.sha256:
            raise PackRefused("damaged", "the manifest is not what was written")
        if (version := msgspec.json.decode(raw, type=_Version).format) != FORMAT_VERSION:
            raise PackRefused("format", f"it has format {version}, and this version reads {FORMAT_VERSION}")
        return msgspec.json.decode(raw, type=PackManifest)
    except OSError as error:
        raise PackRefused("damaged", f"the manifest cannot be read ({error.strerror})") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PackRefused("damaged", f"the manifest cannot be parsed ({error})") from error


class _Version(msgspec.Struct):
    format: int


def check_identity(manifest: PackManifest, identity: PackIdentity) -> None:
    """Refuses a pack that was made by another model, tokenizer, template, dtype, layout or rope setting."""
    for name in PackIdentity.__struct_fields__:
        found, wanted = getattr(manifest.identity, name), getattr(identity, name)
        if found != wanted:
            raise PackRefused(
                f"other_{name}", f"it was made with {name} {found[:60]!r}; this server has {wanted[:60]!r}"
            )


def check_sizes(folder: Path, manifest: PackManifest) -> None:
    """Refuses files that are not as long as the manifest says: torn, or not all there."""
    expected = {TOKENS: 4 * manifest.num_tokens, BLOCKS: manifest.block_file_bytes}
    for name, size in expected.items():
        try:
            found = (folder / name).stat().st_size
        except OSError as error:
            raise PackRefused("damaged", f"{name} cannot be read ({error.strerror})") from error
        if found != size:
            raise PackRefused("damaged", f"{name} has {found} bytes instead of {size}")


def verify(folder: Path, identity: PackIdentity) -> PackManifest:
    """Reads every byte of a pack, cheapest checks first. Takes about a second per GB: call it in a thread.

    Raises:
        PackRefused: With the first thing that is wrong.
    """
    manifest = check(folder, identity)
    try:
        with (folder / TOKENS).open("rb") as tokens:
            if hashlib.file_digest(tokens, "sha256").hexdigest() != manifest.tokens_sha256:
                raise PackRefused("damaged", f"{TOKENS} is not what was written")
        with (folder / BLOCKS).open("rb") as file:
            for number, block in enumerate(manifest.blocks):
                file.seek(block.offset)
                if _digest(file.read, block.nbytes) != block.sha256:
                    layer, part = divmod(number, len(manifest.parts))
                    what = f"the {manifest.parts[part]} of layer {layer}"
                    raise PackRefused("damaged", f"{what} are not what was written")
    except OSError as error:
        raise PackRefused("damaged", f"it cannot be read ({error.strerror})") from error
    return manifest


def check(folder: Path, identity: PackIdentity) -> PackManifest:
    """All that can be told without reading the blocks. Raises as `verify` does."""
    manifest = read_manifest(folder)
    check_identity(manifest, identity)
    check_sizes(folder, manifest)
    return manifest


def _digest(read: Callable[[int], bytes], nbytes: int) -> str:
    digest, left = hashlib.sha256(), nbytes
    while left and (part := read(min(left, _READ_BYTES))):
        digest.update(part)
        left -= len(part)
    return digest.hexdigest()
