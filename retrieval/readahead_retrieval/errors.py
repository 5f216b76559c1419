"""The package's errors.

RetrievalError
├── NotFound                 no such knowledge base, file, document, page, chunk, job or batch for this tenant
│   ├── PageNotFound         a document that is there has no such page
│   └── DocumentRemoved      a document that was there and was deleted: old answers may still cite it
├── AlreadyExists            a name that is taken
├── InvalidName              a name that is empty, too long or holds control characters
├── InvalidState             what is asked cannot be done to a job as it stands
├── KnowledgeBaseExpired     nobody used it for as long as its expiry says
├── StorageFull              the disk, or the database's, is full: retry once there is room
├── LibraryInUse             another process has opened this home
├── DocumentError            a document that cannot be read; `code` is one of DOCUMENT_ERROR_CODES
├── EmptyKnowledgeBase       a question to a knowledge base without a searchable document
├── Busy                     more is waiting than may wait: retry
├── QueryError               a query that cannot be searched (empty, too long)
├── EmbedderUnavailable      the embedding service does not answer: retry
├── EmbedderRefused          the embedding service refuses (wrong key, unknown model, text too long)
├── WorkshopDied             a process that computes for us ended before it was done; the same may succeed in another
├── WorkshopFailed           it could not do what it was asked
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
    "disk_full",
    "internal",
]


Kind = Literal["knowledge base", "file", "document", "page", "chunk", "job", "file batch"]
"""What may not be found."""


class RetrievalError(Exception):
    """Root of this package's errors."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotFound(RetrievalError):
    """No such thing for this tenant; what belongs to another tenant is not found either."""

    def __init__(self, kind: Kind, name: str) -> None:
        super().__init__(f"No {kind} {name!r} was found.")
        self.kind = kind
        self.name = name


class DocumentRemoved(NotFound):
    """The document was deleted, by somebody of this tenant.

    Args:
        name: Its id.
        title: The name by which it was cited.
    """

    def __init__(self, name: str, title: str) -> None:
        super().__init__("document", name)
        self.message = f"The document {title!r} was deleted."
        self.args = (self.message,)
        self.title = title


class PageNotFound(NotFound):
    """A document has no such page, or none of such a range."""

    def __init__(self, page: str, document: str, pages: int) -> None:
        super().__init__("page", page)
        self.message = f"There is no page {page} in {document}, which has {pages} {'page' if pages == 1 else 'pages'}."
        self.args = (self.message,)


class AlreadyExists(RetrievalError):
    """The name is taken."""


class InvalidName(RetrievalError):
    """The name is empty, too long or holds control characters."""


class InvalidState(RetrievalError):
    """A job that is finished cannot be cancelled, one that is not cannot be retried."""


class KnowledgeBaseExpired(RetrievalError):
    """Its `expires_after` has passed since it was last used; its documents are kept, and answer no more."""


class StorageFull(RetrievalError):
    """Nothing can be written until somebody frees space."""

    def __init__(self) -> None:
        super().__init__("The server's disk is full: free some space, then try again.")


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


class WorkshopDied(RetrievalError):
    """A process that cuts documents or builds indexes ended, was ended, or did not answer in time."""


class WorkshopFailed(RetrievalError):
    """A process that cuts documents or builds indexes met an error; asking again changes nothing."""


class QuestionsInvalid(RetrievalError):
    """A file of questions for evaluation that cannot be used; the message names the line."""
