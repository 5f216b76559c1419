"""Is this a PDF at all? Asked before anything parses the file."""

from __future__ import annotations

from pathlib import Path

from readahead_retrieval.errors import DocumentError

HEADER_WINDOW = 1024
"""Readers accept `%PDF-` anywhere in the first 1024 bytes (ISO 32000, annex H.3, note 13)."""

_KINDS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"PK\x03\x04", "a ZIP archive (perhaps a Word, Excel or PowerPoint document)"),
    (b"\xd0\xcf\x11\xe0", "an old Microsoft Office document"),
    (b"{\\rtf", "an RTF document"),
    (b"%!PS", "a PostScript document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"version https://git-lfs.github.com", "a Git LFS pointer, which only names the real file"),
)


def check_magic(path: Path) -> None:
    """Raises DocumentError `empty_file` or `not_pdf`, naming what the file looks like instead."""
    with path.open("rb") as file:
        head = file.read(HEADER_WINDOW)
    if not head:
        raise DocumentError("empty_file", "The file is empty (0 bytes). Upload it again.")
    if b"%PDF-" not in head:
        raise DocumentError("not_pdf", f"The file is not a PDF: it looks like {_looks_like(head)}.")


def _looks_like(head: bytes) -> str:
    for magic, name in _KINDS:
        if head.startswith(magic):
            return name
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")) or b"<html" in start:
        return "an HTML page"
    if start.startswith(b"<"):
        return "an XML document"
    if b"\x00" in head:
        return "a binary file of another format"
    return "plain text"
