"""Our own engine, in a process of its own that is restarted when it dies."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator
from pathlib import Path

from readahead_serving.engine.client import EngineProcess
from readahead_serving.engine.grammar import check_json_schema
from readahead_serving.engine.messages import EngineLoaded, StepOutputs
from readahead_serving.engine.request import AbortRequest, EngineStats, GenerationDelta, GenerationRequest
from readahead_serving.engine.stream import RequestStream, TokenTexts
from readahead_serving.engine.validation import check_request
from readahead_serving.errors import EngineBusy, EngineUnavailable, RequestRefused, ServingError
from readahead_serving.settings import ServingSettings

STALL_S = 30.0
"""Seconds without a word from a working engine after which it counts as stuck. A step takes well under ten."""
RESTART_DELAY_S = (0.1, 30.0)
"""First and longest wait before a restart; doubled each time the engine dies before it has computed anything."""
_NO_STATS = EngineStats(
    steps=0,
    running=0,
    waiting=0,
    kv_tokens_used=0,
    kv_tokens_total=0,
    prompt_tokens_computed=0,
    completion_tokens=0,
    aborted=0,
)

log = logging.getLogger(__name__)


class NativeEngine:
    """Implements `backends.base.Engine` over an `EngineProcess`.

    Requests in flight, aborted ones included until the engine confirms their end, are at most `max_running +
    max_waiting`: that bounds every queue between here and the engine. Use `start`.
    """

    def __init__(self, settings: ServingSettings, model_path: Path, tokenizer: TokenTexts) -> None:
        self._settings = settings
        self._model_path = model_path
        self._tokenizer = tokenizer
        self._process: EngineProcess | None = None
        self._loaded: EngineLoaded | None = None
        self._stats = _NO_STATS
        self._streams: dict[str, RequestStream] = {}
        self._heard_at = 0.0
        self._finished_at: deque[float] = deque(maxlen=32)
        self._closing = False
        self._supervisor: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, settings: ServingSettings, model_path: Path, tokenizer: TokenTexts) -> NativeEngine:
        """Starts the engine and waits until it is ready.

        Args:
            settings: The server's.
            model_path: A GGUF file or a safetensors folder.
            tokenizer: The model's.

        Raises:
            ModelLoadError: The engine refuses the model or the settings.
            EngineUnavailable: It died while loading.
        """
        engine = cls(settings, model_path, tokenizer)
        await engine._launch()
        engine._supervisor = asyncio.create_task(engine._supervise())
        return engine

    @property
    def max_model_len(self) -> int:
        """Tokens of prompt and completion together: the model's window, or the whole KV cache where that is less."""
        assert self._loaded is not None
        return min(self._loaded.max_positions, self._loaded.kv_tokens_total)

    @property
    def pid(self) -> int | None:
        """The engine process's id; None while there is none."""
        return self._process.pid if self._process is not None else None

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationDelta, None]:
        """See `Engine.generate`.

        A request whose deadline passes ends with the finish reason "abort" and the error "deadline exceeded".
        """
        assert self._loaded is not None
        check_request(request, vocab_size=self._loaded.vocab_size, window=self.max_model_len)
        if request.sampling.json_schema is not None:
            await asyncio.to_thread(check_json_schema, request.sampling.json_schema)
        stream = self._submit(request)
        try:
            while True:
                delta = await stream.next()
                yield delta
                if delta.finish_reason is not None:
                    return
        finally:
            self._abandon(request.request_id, stream)

    def stats(self) -> EngineStats:
        return self._stats

    def is_ready(self) -> bool:
        if self._process is None:
            return False
        return not self._streams or time.monotonic() - self._heard_at < STALL_S

    async def close(self) -> None:
        """Ends the engine process; requests in flight end with `EngineUnavailable`."""
        self._closing = True
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
        await self._drop_process(EngineUnavailable("The server is shutting down."))

    def _submit(self, request: GenerationRequest) -> RequestStream:
        if self._process is None:
            state = "shutting down" if self._closing else "starting"
            raise EngineUnavailable(f"The engine is {state}: try again in a few seconds.")
        if request.request_id in self._streams:
            raise RequestRefused(f"The request id {request.request_id!r} is in use.", code="duplicate_request_id")
        if len(self._streams) >= self._settings.max_running + self._settings.max_waiting:
            raise EngineBusy("Too many requests are waiting: try again later.", self._predicted_wait_s())
        if not self._streams:
            self._heard_at = time.monotonic()
        stream = self._streams[request.request_id] = RequestStream(request, self._tokenizer)
        self._process.send(request)
        return stream

    def _predicted_wait_s(self) -> float:
        """Seconds until the next request should end, from how fast the last ones did."""
        if not self._finished_at:
            return 1.0
        elapsed = time.monotonic() - self._finished_at[0]
        return min(60.0, max(0.05, elapsed / len(self._finished_at)))

    def _abandon(self, request_id: str, stream: RequestStream) -> None:
        """Has the engine end a request that nobody reads any more, unless it has ended there."""
        if self._process is not None and self._streams.get(request_id) is stream and not stream.abandoned:
            stream.abandoned = True
            self._process.send(AbortRequest(request_id=request_id))

    async def _launch(self) -> None:
        process, self._loaded = await EngineProcess.start(self._settings, self._model_path)
        self._process = process

    async def _supervise(self) -> None:
        delay, longest = RESTART_DELAY_S
        while True:
            worked = await self._serve()
            delay = RESTART_DELAY_S[0] if worked else min(2 * delay, longest)
            await asyncio.sleep(delay)
            try:
                await self._launch()
            except (ServingError, OSError) as error:
                log.warning("the engine does not start again (next try in %.1f s): %s", delay, error)

    async def _serve(self) -> bool:
        """Passes outputs on until the process dies. Returns whether it has computed anything."""
        if self._process is None:
            return False
        try:
            while True:
                self._dispatch(await self._process.receive())
        except EngineUnavailable as error:
            log.warning("%s Requests in flight are lost; it is started again.", error)
        except Exception:  # the top of a loop: a bug of ours must not leave requests waiting with nobody to end them
            log.exception("the engine's outputs cannot be read; it is started again")
        worked = self._stats.steps > 0
        await self._drop_process(EngineUnavailable("The engine stopped while it worked on this request: try again."))
        return worked

    def _dispatch(self, message: StepOutputs) -> None:
        self._heard_at = time.monotonic()
        if message.stats is not None:
            self._stats = message.stats
        for output in message.outputs:
            stream = self._streams[output.request_id]
            stream.push(output)
            if output.finish_reason is not None:
                del self._streams[output.request_id]
                self._finished_at.append(self._heard_at)
            elif stream.is_finished:  # a stop string, which the engine knows nothing of
                self._abandon(output.request_id, stream)

    async def _drop_process(self, failure: EngineUnavailable) -> None:
        process, self._process = self._process, None
        streams, self._streams = self._streams, {}
        self._stats = _NO_STATS
        for stream in streams.values():
            stream.fail(failure)
        if process is not None:
            await process.close()
