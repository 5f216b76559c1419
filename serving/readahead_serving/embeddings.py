"""Text embeddings: tokenising, fair micro-batches, one model process.

While one batch computes, requests gather; the next batch takes a few texts of each in turn. So a single question never
waits behind a thousand chunks, and no timer delays anyone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tokenizers

from readahead_serving.embedding_process import EmbeddingProcess
from readahead_serving.errors import EngineBusy, EngineUnavailable, GenerationFailed, ModelLoadError
from readahead_serving.kernels.build import KernelChoice

logger = logging.getLogger(__name__)

MAX_QUEUED_TEXTS = 8192
_BATCH_TOKENS = 1024
"""Padded tokens of one batch at most: some 0.06 s of one core for a model of 22M parameters. Larger ones gain nothing,
and a question that comes meanwhile waits for the end of one."""
_TEXTS_PER_TURN = 8
_ASSUMED_SECONDS_PER_TEXT = 0.02


@dataclass(eq=False, slots=True)
class _Job:
    """One request: its sequences, those still to compute (longest first), and the rows that are done."""

    sequences: Sequence[list[int]]
    left: deque[int]
    rows: dict[int, bytes]
    done: asyncio.Future[list[bytes]]

    @classmethod
    def of(cls, sequences: Sequence[list[int]]) -> _Job:
        longest_first = sorted(range(len(sequences)), key=lambda i: -len(sequences[i]))
        return cls(sequences, deque(longest_first), {}, asyncio.get_running_loop().create_future())

    def put(self, index: int, row: bytes) -> None:
        self.rows[index] = row
        if len(self.rows) == len(self.sequences) and not self.done.done():
            self.done.set_result([self.rows[i] for i in range(len(self.sequences))])


class EmbeddingModel:
    """An embedding model, ready to serve. Make one with `start`."""

    def __init__(self, name: str, process: EmbeddingProcess, tokenizer: tokenizers.Tokenizer) -> None:
        self.name = name
        self.dimension = 0
        self.max_model_len = 0
        """Tokens of one text at most, special tokens included."""
        self.revision = ""
        """Digest of the weights: vectors of other weights under the same name don't belong beside these."""
        self._process = process
        self._tokenizer = tokenizer
        self._unfinished: set[_Job] = set()
        self._turns: deque[_Job] = deque()
        """Jobs with texts left to compute; the first is next."""
        self._seconds_per_text = _ASSUMED_SECONDS_PER_TEXT
        self._work = asyncio.Event()
        self._batcher = asyncio.create_task(self._run(), name="embedding batcher")

    @classmethod
    async def start(
        cls,
        name: str,
        path: Path,
        *,
        threads: int,
        dtype: Literal["bfloat16", "float32"],
        stall_s: float,
        kernels: KernelChoice = "off",
        kernels_dir: Path = Path(),
    ) -> EmbeddingModel:
        """Starts the model's process and waits until it has loaded.

        Args:
            name: What requests call it.
            path: The model's folder.
            threads: Compute threads.
            dtype: "bfloat16" is used where the processor is fast at it.
            stall_s: Seconds that a batch may take before the process counts as hung and is replaced.
            kernels: Which compiled kernels attend, where any do.
            kernels_dir: Where those are kept.

        Raises:
            ModelLoadError: The folder holds no sentence-transformers model with a tokenizer.json.
        """
        tokenizer = await asyncio.to_thread(_load_tokenizer, path / "tokenizer.json")
        process = EmbeddingProcess(
            path, threads=threads, dtype=dtype, stall_s=stall_s, kernels=kernels, kernels_dir=kernels_dir
        )
        model = cls(name, process, tokenizer)
        try:
            hello = await model._process.loaded()
        except BaseException:
            await model.close()
            raise
        model.dimension, model.max_model_len, model.revision = hello.dimension, hello.max_length, hello.revision
        return model

    def is_ready(self) -> bool:
        return self._process.is_ready()

    @property
    def pid(self) -> int | None:
        """The model process's id; None while there is none."""
        return self._process.pid

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of whole texts, never truncated, with special tokens. Slow for many: call it in a thread."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]

    def wrap(self, token_ids: Sequence[int]) -> list[int]:
        """Puts the special tokens around a caller's token ids, as `tokenize` does around a text's.

        Raises:
            ValueError: An id is outside the vocabulary.
        """
        size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        outside = next((i for i in token_ids if not 0 <= i < size), None)
        if outside is not None:
            raise ValueError(f"token id {outside} is outside the vocabulary of {size}")
        probe = self._tokenizer.encode("a").ids
        middle = self._tokenizer.encode("a", add_special_tokens=False).ids
        at = next(i for i in range(len(probe)) if probe[i : i + len(middle)] == middle)
        return [*probe[:at], *token_ids, *probe[at + len(middle) :]]

    async def embed(self, sequences: Sequence[list[int]]) -> list[bytes]:
        """Vectors of token id sequences, each `dimension` float32 values as little-endian bytes.

        Cancelling the caller takes its texts out of the queue.

        Raises:
            EngineBusy: Too many texts are queued.
            EngineUnavailable: The model's process is starting, died or hung.
            GenerationFailed: The model can't compute one of these sequences.
        """
        queued = sum(len(job.left) for job in self._unfinished)
        if queued and queued + len(sequences) > MAX_QUEUED_TEXTS:
            raise EngineBusy(f"{queued} texts wait to be embedded already.", queued * self._seconds_per_text)
        if not self.is_ready():
            raise EngineUnavailable(f"The process of {self.name} is starting.")
        job = _Job.of(sequences)
        self._unfinished.add(job)
        self._turns.append(job)
        self._work.set()
        try:
            return await job.done
        finally:
            self._unfinished.discard(job)

    async def close(self) -> None:
        """Ends the process; requests in flight fail with EngineUnavailable."""
        self._batcher.cancel()
        await asyncio.gather(self._batcher, return_exceptions=True)
        await self._process.close()
        self._fail(set(self._unfinished), EngineUnavailable("The server is shutting down."))

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            batch = self._next_batch()
            if not batch:
                self._work.clear()
                continue
            started = time.monotonic()
            try:
                rows = await self._process.embed([job.sequences[i] for job, i in batch])
            except (EngineUnavailable, GenerationFailed) as error:
                self._fail({job for job, _ in batch}, error)
                continue
            except Exception:  # the top of a loop: whatever one batch meets, those that follow are computed
                logger.exception("A batch of texts could not be embedded")
                self._fail({job for job, _ in batch}, GenerationFailed("These texts could not be embedded."))
                continue
            self._seconds_per_text += 0.1 * ((time.monotonic() - started) / len(batch) - self._seconds_per_text)
            for (job, i), row in zip(batch, rows, strict=True):
                job.put(i, row)

    def _next_batch(self) -> list[tuple[_Job, int]]:
        """A few texts of each job in turn, within the batch's budget of padded tokens."""
        batch: list[tuple[_Job, int]] = []
        longest = 0
        while self._turns:
            job = self._turns.popleft()
            if job.done.done():  # failed, or its caller has gone
                continue
            for taken in range(min(_TEXTS_PER_TURN, len(job.left))):
                longest = max(longest, len(job.sequences[job.left[0]]))
                if batch and longest * (len(batch) + 1) > _BATCH_TOKENS:
                    # who had none of its turn has the next one; who had some of it waits for the others
                    self._turns.append(job) if taken else self._turns.appendleft(job)
                    return batch
                batch.append((job, job.left.popleft()))
            if job.left:
                self._turns.append(job)
        return batch

    def _fail(self, jobs: set[_Job], error: Exception) -> None:
        for job in jobs:
            if not job.done.done():
                job.done.set_exception(error)


def _load_tokenizer(path: Path) -> tokenizers.Tokenizer:
    if not path.is_file():
        raise ModelLoadError(f"{path} is missing; an embedding model needs its tokenizer.json.")
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.no_truncation()  # texts over the window are refused, never cut in silence
    tokenizer.no_padding()
    return tokenizer
