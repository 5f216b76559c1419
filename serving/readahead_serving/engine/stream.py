"""One request as the API process sees it: tokens become text, stop strings are found, deltas wait to be read."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Protocol

from readahead_serving.engine.detokenize import Detokenizer
from readahead_serving.engine.messages import SequenceOutput
from readahead_serving.engine.request import (
    FinishReason,
    GenerationDelta,
    GenerationRequest,
    PackMiss,
    TokenLogprobs,
    Usage,
)
from readahead_serving.engine.stop import StopChecker
from readahead_serving.errors import ServingError


class TokenTexts(Protocol):
    """The part of a tokenizer that turns tokens into text."""

    special_ids: frozenset[int]

    def token_bytes(self, token_id: int) -> bytes: ...


class _WaitingLogprobs:
    """Log probabilities that wait until the text of their tokens is shown, which stops and code points hold back."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, TokenLogprobs]] = deque()
        self._bytes = 0

    def add(self, logprobs: TokenLogprobs, num_bytes: int) -> None:
        self._waiting.append((self._bytes, logprobs))
        self._bytes += num_bytes

    def take(self, shown_bytes: int | None) -> list[TokenLogprobs]:
        """Those of tokens that begin before `shown_bytes`; all that wait if it is None."""
        taken = []
        while self._waiting and (shown_bytes is None or self._waiting[0][0] < shown_bytes):
            taken.append(self._waiting.popleft()[1])
        return taken

    def cut(self, shown_bytes: int) -> None:
        """Forgets tokens that begin where the text has ended."""
        while self._waiting and self._waiting[-1][0] >= shown_bytes:
            self._waiting.pop()


class RequestStream:
    """Collects what the engine gives for one request until the reader takes it.

    A slow reader gets larger deltas, not a longer queue: what waits here never exceeds one completion.
    """

    def __init__(self, request: GenerationRequest, tokenizer: TokenTexts, pack_miss: PackMiss | None = None) -> None:
        self._request = request
        self._pack_miss = pack_miss
        self._detokenizer = Detokenizer(tokenizer.token_bytes, tokenizer.special_ids)
        self._tokenizer = tokenizer
        self._stop = StopChecker(request.sampling.stop)
        self._wants_logprobs = request.sampling.logprobs is not None
        self._logprobs = _WaitingLogprobs()
        self._prompt_logprobs: list[TokenLogprobs] = []
        self._shown_bytes = 0
        self._submitted_at = time.monotonic()
        self._queued_s: float | None = None
        self._cached_tokens = 0
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

    @property
    def completion_tokens(self) -> int:
        """Tokens that have come so far."""
        return self._completion_tokens

    def push(self, output: SequenceOutput) -> None:
        """Takes what one step gave. Outputs after the end are ignored."""
        if self.is_finished:
            return
        if output.started_at is not None:
            self._queued_s = max(0.0, output.started_at - self._submitted_at)
        self._cached_tokens = output.cached_tokens or self._cached_tokens
        self._prompt_logprobs += output.prompt_logprobs
        for number, token in enumerate(output.token_ids):
            self._push_token(token, output.logprobs[number] if output.logprobs else None)
            if self._stop.found:
                self._logprobs.cut(self._shown_bytes)
                self._finish("stop", None)
                return
        if output.finish_reason is not None:
            self._show(self._stop.push(self._detokenizer.flush()))
            if not self._stop.found:
                self._show(self._stop.flush())
            self._finish(output.finish_reason, output.error)
        elif self._text:
            self._changed.set()

    def _push_token(self, token: int, logprobs: TokenLogprobs | None) -> None:
        self._completion_tokens += 1
        self._token_ids.append(token)
        if logprobs is not None and token not in self._tokenizer.special_ids:
            self._logprobs.add(logprobs, len(self._tokenizer.token_bytes(token)))
        if text := self._detokenizer.push((token,)):
            self._show(self._stop.push(text))

    def _show(self, text: str) -> None:
        self._text += text
        if self._wants_logprobs:
            self._shown_bytes += len(text.encode())

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
            usage=Usage(
                prompt_tokens=len(self._request.prompt_tokens),
                completion_tokens=self._completion_tokens,
                cached_tokens=self._cached_tokens,
                pack_miss=self._pack_miss,
            ),
            finish_reason=self._reason,
            error=self._error,
            logprobs=self._logprobs.take(None if self.is_finished else self._shown_bytes),
            prompt_logprobs=self._prompt_logprobs,
            queued_s=self._queued_s,
        )
        self._text, self._token_ids, self._prompt_logprobs, self._queued_s = "", [], [], None
        return delta
