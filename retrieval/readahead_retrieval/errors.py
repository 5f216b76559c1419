"""The package's errors.

RetrievalError
├── NotFound                 no such knowledge base, file or document for this tenant
├── AlreadyExists            a name that is taken
├── InvalidName              a name that is empty, too long or holds control characters
├── LibraryInUse             another process has opened this home
├── DocumentError            a document that cannot be read; `code` is one of DOCUMENT_ERROR_CODES
├── EmptyKnowledgeBase       a question to a knowledge base without a searchable document
├── Busy                     more is waiting than may wait: retry
├── QueryError               a query that cannot be searched (empty, too long)
├── EmbedderUnavailable      the embedding service does not answer: retry
├── EmbedderRefused          the embedding service refuses (wrong key, unknown model, text too long)
├── QuestionsInvalid         a file of questions for evaluation that cannot be used
└── IndexDamaged             an index whose manifest or checksums do not hold; it is rebuilt, never opened half
"""

from __future__ import annotations

from typing import Literal

DocumentErrorCode = Literal[
    "password_required",
    "unsupported_encryption",
    "corrupt",
    "not_pdf",
    "empty_file",
    "no_text",
    "needs_ocr",
    "too_large",
    "timed_out",
    "interrupted",
    "embedder_unavailable",
    "internal",
]


class RetrievalError(Exception):
    """Root of this package's errors."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotFound(RetrievalError):
    """No such thing for this tenant; what belongs to another tenant is not found either."""

    def __init__(self, kind: Literal["knowledge base", "file", "document", "page"], name: str) -> None:
        super().__init__(f"No {kind} {name!r} was found.")
        self.kind = kind
        self.name = name


class AlreadyExists(RetrievalError):
    """The name is taken."""


class InvalidName(RetrievalError):
    """The name is empty, too long or holds control characters."""


class LibraryInUse(RetrievalError):
    """Another process has opened this home; indexes have one writer."""


class DocumentError(RetrievalError):
    """A document that cannot be made searchable.

    Args:
        code: A stable word for programs.
        message: One sentence for the person who uploaded the file, naming the mend.
        retryable: Whether the same bytes may succeed later.
    """

    def __init__(self, code: DocumentErrorCode, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code: DocumentErrorCode = code
        self.retryable = retryable


class EmptyKnowledgeBase(RetrievalError):
    """The knowledge base holds no searchable document."""


class Busy(RetrievalError):
    """More is waiting than may wait; the same may succeed in a moment."""


class QueryError(RetrievalError):
    """The query cannot be searched."""


class EmbedderUnavailable(RetrievalError):
    """The embedding service does not answer."""


class EmbedderRefused(RetrievalError):
    """The embedding service refuses what it is asked; asking again changes nothing."""


class IndexDamaged(RetrievalError):
    """An index generation whose manifest or checksums do not hold."""


class QuestionsInvalid(RetrievalError):
    """A file of questions for evaluation that cannot be used; the message names the line."""
