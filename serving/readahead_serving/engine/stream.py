"""One request as the API process sees it: tokens become text, stop strings are found, deltas wait to be read."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from readahead_serving.engine.detokenize import Detokenizer
from readahead_serving.engine.messages import SequenceOutput
from readahead_serving.engine.request import FinishReason, GenerationDelta, GenerationRequest, Usage
from readahead_serving.engine.stop import StopChecker
from readahead_serving.errors import ServingError


class TokenTexts(Protocol):
    """The part of a tokenizer that turns tokens into text."""

    special_ids: frozenset[int]

    def token_bytes(self, token_id: int) -> bytes: ...


class RequestStream:
    """Collects what the engine gives for one request until the reader takes it.

    A slow reader gets larger deltas, not a longer queue: what waits here never exceeds one completion.
    """

    def __init__(self, request: GenerationRequest, tokenizer: TokenTexts) -> None:
        self._request = request
        self._detokenizer = Detokenizer(tokenizer.token_bytes, tokenizer.special_ids)
        self._stop = StopChecker(request.sampling.stop)
        self._submitted_at = time.monotonic()
        self._queued_s: float | None = None
        self._completion_tokens = 0
        self._text = ""
        self._token_ids: list[int] = []
        self._reason: FinishReason | None = None
        self._error: str | None = None
        self._failure: ServingError | None = None
        self._changed = asyncio.Event()
        self.abandoned = False
        """Whether the engine has been told to end the request."""

    @property
    def is_finished(self) -> bool:
        """Whether all text is known; the engine may still be told to stop."""
        return self._reason is not None or self._failure is not None

    def push(self, output: SequenceOutput) -> None:
        """Takes what one step gave. Outputs after the end are ignored."""
        if self.is_finished:
            return
        if output.started_at is not None:
            self._queued_s = max(0.0, output.started_at - self._submitted_at)
        for token in output.token_ids:
            self._push_token(token)
            if self._stop.found:
                self._finish("stop", None)
                return
        if output.finish_reason is not None:
            self._text += self._stop.push(self._detokenizer.flush())
            if not self._stop.found:
                self._text += self._stop.flush()
            self._finish(output.finish_reason, output.error)
        elif self._text:
            self._changed.set()

    def _push_token(self, token: int) -> None:
        self._completion_tokens += 1
        self._token_ids.append(token)
        if text := self._detokenizer.push((token,)):
            self._text += self._stop.push(text)

    def _finish(self, reason: FinishReason, error: str | None) -> None:
        self._reason, self._error = reason, error
        self._changed.set()

    def fail(self, failure: ServingError) -> None:
        """Ends the stream with an error, after what has come so far."""
        if not self.is_finished:
            self._failure = failure
            self._changed.set()

    async def next(self) -> GenerationDelta:
        """Waits for new text or the end.

        Raises:
            ServingError: What `fail` was given.
        """
        await self._changed.wait()
        self._changed.clear()
        if self._failure is not None and not self._text:
            raise self._failure
        if self._failure is not None:
            self._changed.set()
        delta = GenerationDelta(
            request_id=self._request.request_id,
            text=self._text,
            token_ids=self._token_ids,
            usage=Usage(prompt_tokens=len(self._request.prompt_tokens), completion_tokens=self._completion_tokens),
            finish_reason=self._reason,
            error=self._error,
            queued_s=self._queued_s,
        )
        self._text, self._token_ids, self._queued_s = "", [], None
        return delta
