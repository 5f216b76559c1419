"""Our own engine, in a process of its own that is restarted when it dies."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import ClassVar, Protocol, Self

from readahead_serving.backends.admission import AdmissionControl
from readahead_serving.backends.structures import StructureChecks
from readahead_serving.backends.watchdog import Watchdog
from readahead_serving.engine.client import ENGINE_MODULE, EngineProcess
from readahead_serving.engine.messages import EngineLoaded, SequenceOutput, StepOutputs
from readahead_serving.engine.pack_messages import PackCommand, PackEvent
from readahead_serving.engine.request import (
    DEADLINE_EXCEEDED,
    AbortRequest,
    EngineStats,
    GenerationDelta,
    GenerationRequest,
    PackMiss,
)
from readahead_serving.engine.stream import RequestStream, TokenTexts
from readahead_serving.engine.validation import check_limits, check_request
from readahead_serving.errors import EngineUnavailable, RequestRefused, ServingError
from readahead_serving.settings import ServingSettings

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


class ReadPack(Protocol):
    """A pack in memory that a prompt begins with."""

    @property
    def num_tokens(self) -> int: ...


class PackLink(Protocol):
    """What a pack shelf does for an engine."""

    def connect(self, send: Callable[[PackCommand], None]) -> None: ...

    def disconnect(self) -> None: ...

    def on_event(self, event: PackEvent) -> None: ...

    async def prepare(self, salt: str, prompt: list[int]) -> ReadPack | PackMiss | None:
        """Sees to it that a pack that the prompt begins with is in memory; a `PackMiss` tells why none will be read."""
        ...


class NativeEngine:
    """Implements `backends.base.Engine` over an `EngineProcess`.

    Requests in flight, aborted ones included until the engine confirms their end, are at most `max_running +
    max_waiting`: that bounds every queue between here and the engine. Use `start`.
    """

    process_module: ClassVar[str] = ENGINE_MODULE
    """What the engine process runs."""

    def __init__(self, settings: ServingSettings, model_path: Path, tokenizer: TokenTexts) -> None:
        self._settings = settings
        self._model_path = model_path
        self._tokenizer = tokenizer
        self.structures = StructureChecks()
        """Tells what schemas, expressions and grammars can be followed."""
        self._process: EngineProcess | None = None
        self._loaded: EngineLoaded | None = None
        self._stats = _NO_STATS
        self._streams: dict[str, RequestStream] = {}
        self._watchdog = Watchdog(settings.stall_s, settings.stall_restart_s, lambda: bool(self._streams))
        self._admission: AdmissionControl | None = None
        self._packs: PackLink | None = None
        self._closing = False
        self._supervisor: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, settings: ServingSettings, model_path: Path, tokenizer: TokenTexts) -> Self:
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

    def use_packs(self, packs: PackLink) -> None:
        """Connects packs with this engine, and with each process that follows when one dies."""
        self._packs = packs
        if self._process is not None:
            packs.connect(self._process.send)

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
        check_limits(
            request,
            max_prompt_tokens=self._settings.max_prompt_tokens,
            max_completion_tokens=self._settings.max_completion_tokens,
        )
        await self.structures.check(request.sampling)
        pack = None
        if self._packs is not None and not request.sampling.prompt_logprobs:
            pack = await self._packs.prepare(request.salt, request.prompt_tokens)
        stream = self._submit(request, pack)
        timer = self._time_limit(request, stream)
        try:
            while True:
                delta = await stream.next()
                yield delta
                if delta.finish_reason is not None:
                    return
        finally:
            if timer is not None:
                timer.cancel()
            self._abandon(request.request_id, stream)

    def stats(self) -> EngineStats:
        return self._stats

    def is_ready(self) -> bool:
        is_supervised = self._supervisor is not None and not self._supervisor.done()
        return is_supervised and self._process is not None and not self._watchdog.is_stalled

    async def close(self) -> None:
        """Ends the engine process; requests in flight end with `EngineUnavailable`."""
        self._closing = True
        self.structures.close()
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
        await self._drop_process(EngineUnavailable("The server is shutting down."))

    def _submit(self, request: GenerationRequest, pack: ReadPack | PackMiss | None) -> RequestStream:
        if self._process is None or self._admission is None:
            state = "shutting down" if self._closing else "starting"
            raise EngineUnavailable(f"The engine is {state}: try again in a few seconds.")
        if request.request_id in self._streams:
            raise RequestRefused(f"The request id {request.request_id!r} is in use.", code="duplicate_request_id")
        missed = pack if isinstance(pack, PackMiss) else None
        in_pack = 0 if pack is None or isinstance(pack, PackMiss) else pack.num_tokens
        self._admission.admit(request, self._stats, in_pack)
        if not self._streams:
            self._watchdog.heard()
        try:
            self._process.send(request)
        except Exception:  # told to the caller; a request that never left must not count as one in flight
            self._admission.end(request.request_id, 0)
            raise
        stream = self._streams[request.request_id] = RequestStream(request, self._tokenizer, missed)
        return stream

    def _time_limit(self, request: GenerationRequest, stream: RequestStream) -> asyncio.TimerHandle | None:
        """Ends a request at its deadline even when the engine hangs."""
        if request.deadline is None:
            return None
        end = SequenceOutput(
            request_id=request.request_id, token_ids=[], finish_reason="abort", error=DEADLINE_EXCEEDED
        )
        return asyncio.get_running_loop().call_later(max(0.0, request.deadline - time.time()), stream.push, end)

    def _abandon(self, request_id: str, stream: RequestStream) -> None:
        """Has the engine end a request that nobody reads any more, unless it has ended there."""
        if self._process is not None and self._streams.get(request_id) is stream and not stream.abandoned:
            stream.abandoned = True
            self._process.send(AbortRequest(request_id=request_id))

    async def _launch(self) -> None:
        process, self._loaded = await EngineProcess.start(self._settings, self._model_path, self.process_module)
        try:
            if self._packs is not None:
                self._packs.connect(process.send)
        except BaseException:
            await process.close()
            raise
        self._admission = AdmissionControl(self._settings, self._loaded.kv_tokens_total)
        self._process = process  # ready from now on

    async def _supervise(self) -> None:
        delay, longest = RESTART_DELAY_S
        while True:
            worked = False
            try:
                worked = await self._serve()
            except Exception:  # the top of a loop: without it nobody would start an engine ever again
                log.exception("the engine's end was not clean")
            delay = RESTART_DELAY_S[0] if worked else min(2 * delay, longest)
            await asyncio.sleep(delay)
            try:
                await self._launch()
            except (ServingError, OSError) as error:
                log.warning("the engine does not start again (next try in %.1f s): %s", delay, error)
            except Exception:  # as above
                log.exception("the engine does not start again (next try in %.1f s)", delay)

    async def _serve(self) -> bool:
        """Passes outputs on until the process dies. Returns whether it has computed anything."""
        if self._process is None:
            return False
        watch = asyncio.create_task(self._kill_when_hung(self._process))
        try:
            while True:
                self._dispatch(await self._process.receive())
        except EngineUnavailable as error:
            log.warning("%s Requests in flight are lost; it is started again.", error)
        except Exception:  # the top of a loop: a bug of ours must not leave requests waiting with nobody to end them
            log.exception("the engine's outputs cannot be read; it is started again")
        finally:
            watch.cancel()
        worked = self._stats.steps > 0
        await self._drop_process(EngineUnavailable("The engine stopped while it worked on this request: try again."))
        return worked

    async def _kill_when_hung(self, process: EngineProcess) -> None:
        await self._watchdog.hung()
        log.warning("The engine has made no step for %g s though requests wait.", self._settings.stall_restart_s)
        process.kill()

    def _dispatch(self, message: StepOutputs) -> None:
        assert self._admission is not None
        self._watchdog.heard()
        if message.stats is not None:
            self._stats = message.stats
        for event in message.packs:
            if self._packs is not None:
                self._packs.on_event(event)
        for output in message.outputs:
            stream = self._streams[output.request_id]
            stream.push(output)
            if output.token_ids:
                self._admission.started(output.request_id)
            if output.finish_reason is not None:
                del self._streams[output.request_id]
                self._admission.end(output.request_id, stream.completion_tokens)
            elif stream.is_finished:  # a stop string, which the engine knows nothing of
                self._abandon(output.request_id, stream)

    async def _drop_process(self, failure: EngineUnavailable) -> None:
        process, self._process = self._process, None
        streams, self._streams = self._streams, {}
        self._stats = _NO_STATS
        for stream in streams.values():
            stream.fail(failure)
        if process is None:
            return
        try:
            if self._packs is not None:
                self._packs.disconnect()
        finally:
            await process.close()
