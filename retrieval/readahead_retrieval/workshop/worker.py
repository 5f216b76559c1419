"""The process that computes: `python -m readahead_retrieval.workshop.worker`. It ends with its standard input."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from readahead_retrieval.chunking import Chunker
from readahead_retrieval.errors import IndexDamaged
from readahead_retrieval.framing import HEADER_BYTES
from readahead_retrieval.store.full_disk import means_full
from readahead_retrieval.tokens import TokenCounter, counter_of
from readahead_retrieval.workshop import messages
from readahead_retrieval.workshop.messages import Reply

if TYPE_CHECKING:
    from readahead_retrieval.index.generation import GenerationWriter

NICENESS = 10
"""Whoever waits for an answer comes before documents that are made searchable."""


def main() -> None:
    """Answers requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the parent ends us in order
    os.nice(NICENESS)
    worker = _Worker()
    with contextlib.closing(worker):
        while (request := _next(sys.stdin.buffer)) is not None:
            sys.stdout.buffer.write(messages.FRAMING.encode(worker.answer(request)))
            sys.stdout.buffer.flush()


def _next(stream: BinaryIO) -> messages.Request | None:
    header = stream.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return None
    return messages.decode_request(stream.read(messages.FRAMING.body_length(header)))


class _Worker:
    """One document or one index at a time; a new one takes the place of what was left unfinished."""

    def __init__(self) -> None:
        self._counter: TokenCounter = counter_of("")
        self._chunker: Chunker | None = None
        self._writer: GenerationWriter | None = None
        self._does: dict[type[messages.Request], Callable[..., Reply]] = {
            messages.Count: self._count,
            messages.Cut: self._cut,
            messages.Pages: self._pages,
            messages.LastPages: self._last_pages,
            messages.Build: self._build,
            messages.Remove: self._remove,
            messages.Add: self._add,
            messages.Publish: self._publish,
        }

    def answer(self, request: messages.Request) -> Reply:
        try:
            return self._does[type(request)](request)
        except Exception as error:  # noqa: BLE001 - the top of a request: whatever it is, the parent must hear of it
            self.close()
            if means_full(error):
                return messages.Failed("full", str(error))
            message = f"{type(error).__name__}: {error}"
            return messages.Failed("damaged" if isinstance(error, IndexDamaged) else "broken", message)

    def close(self) -> None:
        """Leaves no half index behind."""
        self._chunker = None
        if self._writer is not None:
            self._writer.discard()
            self._writer = None

    def _count(self, request: messages.Count) -> Reply:
        self._counter = counter_of(request.definition)
        return messages.Ready()

    def _cut(self, request: messages.Cut) -> Reply:
        self.close()
        self._chunker = Chunker(self._counter, max_tokens=request.max_tokens, overlap_tokens=request.overlap_tokens)
        return messages.Ready()

    def _pages(self, request: messages.Pages) -> Reply:
        assert self._chunker is not None, "a document was begun"
        return messages.Chunks.of(self._chunker.add([page.page() for page in request.pages]))

    def _last_pages(self, _request: messages.LastPages) -> Reply:
        assert self._chunker is not None, "a document was begun"
        made = self._chunker.finish()
        self._chunker = None
        return messages.Chunks.of(made)

    def _build(self, request: messages.Build) -> Reply:
        # Only who builds needs FAISS, NumPy and tantivy.
        from pathlib import Path

        from readahead_retrieval.index.generation import Generation, GenerationWriter

        self.close()
        base = None if request.base is None else Generation.open(Path(request.base[0]), request.base[1])
        self._writer = GenerationWriter(
            Path(request.folder), request.kb_id, request.embedding_model, request.dimension, base
        )
        return messages.Ready()

    def _remove(self, request: messages.Remove) -> Reply:
        assert self._writer is not None, "an index was begun"
        self._writer.remove(request.ids)
        return messages.Ready()

    def _add(self, request: messages.Add) -> Reply:
        import numpy as np

        from readahead_retrieval.index.generation import Entry

        assert self._writer is not None, "an index was begun"
        vectors = np.frombuffer(request.vectors, dtype="<f4").reshape(-1, self._writer.dimension)
        self._writer.add([Entry(*entry) for entry in request.entries], vectors)
        return messages.Ready()

    def _publish(self, _request: messages.Publish) -> Reply:
        assert self._writer is not None, "an index was begun"
        sha256 = self._writer.publish()
        self._writer = None
        return messages.Published(sha256)


if __name__ == "__main__":
    main()
