"""An embedding model behind OpenAI's `/v1/embeddings`."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypeVar

import httpx
import msgspec
import numpy as np

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.errors import EmbedderRefused, EmbedderUnavailable

MAX_BATCH = 64
"""Texts in one request."""
MAX_CONNECTIONS = 8
"""The server computes one batch at a time; and the client looks at every open connection for each request."""
MAX_WAIT_S = 10.0
"""Longest that a server's Retry-After is obeyed; whoever needs more patience asks again."""
DEFAULT_MAX_TOKENS = 256
T = TypeVar("T")

RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})


class _Row(msgspec.Struct):
    index: int
    embedding: str | list[float]


class _Answer(msgspec.Struct):
    data: list[_Row]
    revision: str | None = None


class _Model(msgspec.Struct):
    id: str
    max_model_len: int | None = None
    revision: str | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


@dataclass(frozen=True, slots=True)
class _NotNow:
    """Why a request may be tried again, and when the server would like it."""

    reason: str
    retry_after_s: float | None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one call waits, and how often it tries."""

    timeout_s: float = 60.0
    attempts: int = 4
    backoff_s: float = 0.25


DEFAULT_PATIENCE = Patience()


class HttpEmbedder:
    """Asks a server that speaks OpenAI's API; retries what may be retried, a bounded number of times.

    Args:
        base_url: With the version: "http://127.0.0.1:8001/v1".
        dimension: As `connect` finds it out.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        *,
        dimension: int,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        patience: Patience = DEFAULT_PATIENCE,
    ) -> None:
        self._model = model
        self._revision: str | None = None
        """Of the weights, where the server tells it."""
        self.dimension = dimension
        self.max_tokens = max_tokens
        self._patience = patience
        self._client = _client(base_url, api_key, patience)

    @classmethod
    async def connect(
        cls, base_url: str, model: str, api_key: str | None = None, *, patience: Patience = DEFAULT_PATIENCE
    ) -> Self:
        """Asks the server for the model's window and dimension.

        Raises:
            EmbedderUnavailable: when it does not answer.
            EmbedderRefused: when it does not have the model, or the key is wrong.
        """
        embedder = cls(base_url, model, api_key, dimension=0, patience=patience)
        try:
            served = await embedder._served()
            embedder.max_tokens, embedder._revision = served.max_model_len or DEFAULT_MAX_TOKENS, served.revision
            embedder.dimension = len((await embedder._rows(["dimension"]))[0])
        except BaseException:
            await embedder.close()
            raise
        return embedder

    @property
    def model_id(self) -> str:
        return self._model if self._revision is None else f"{self._model}@{self._revision}"

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        """As `Embedder.embed`; raises `EmbedderRefused` too."""
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), MAX_BATCH):
            rows = await self._rows(texts[start : start + MAX_BATCH])
            for offset, row in enumerate(rows):
                if len(row) != self.dimension:
                    raise EmbedderRefused(
                        f"{self.model_id} gives {len(row)} numbers a text and gave {self.dimension} before: "
                        "another model runs under its name."
                    )
                vectors[start + offset] = row
        return _unit_rows(vectors)

    async def close(self) -> None:
        await self._client.aclose()

    async def _served(self) -> _Model:
        """What the server tells of the model: ours and vLLM its window, ours its revision."""
        response = await self._request("GET", "models", None)
        models = _decode(response, _Models).data
        return next((model for model in models if model.id == self._model), _Model(self._model))

    async def _rows(self, texts: Sequence[str]) -> list[Vectors]:
        body = {"model": self._model, "input": list(texts), "encoding_format": "base64"}
        answer = _decode(await self._request("POST", "embeddings", body), _Answer)
        if self._revision is not None and answer.revision != self._revision:
            raise EmbedderRefused(
                f"{self._model} has the weights {answer.revision} and had {self._revision} before. Restart: documents "
                "are then embedded anew."
            )
        rows = sorted(answer.data, key=lambda row: row.index)
        if [row.index for row in rows] != list(range(len(texts))):
            raise EmbedderRefused(f"The embedding service gave {len(rows)} vectors for {len(texts)} texts.")
        return [_numbers(row.embedding) for row in rows]

    async def _request(self, method: str, path: str, body: Mapping[str, object] | None) -> httpx.Response:
        attempt = 1
        while True:
            answer = await self._try(method, path, body)
            if isinstance(answer, httpx.Response):
                return answer
            if attempt == self._patience.attempts:
                raise EmbedderUnavailable(
                    f"The embedding service at {self._client.base_url} does not answer: {answer.reason}"
                )
            backoff_s = self._patience.backoff_s * 2 ** (attempt - 1)
            await asyncio.sleep(min(backoff_s if answer.retry_after_s is None else answer.retry_after_s, MAX_WAIT_S))
            attempt += 1

    async def _try(self, method: str, path: str, body: Mapping[str, object] | None) -> httpx.Response | _NotNow:
        try:
            response = await self._client.request(method, path, json=body)
        except httpx.TransportError as error:
            return _NotNow(f"{type(error).__name__} {error}".strip(), None)
        if response.is_success:
            return response
        reason = f"status {response.status_code}: {response.text[:200]}"
        if response.status_code not in RETRYABLE:
            raise EmbedderRefused(f"The embedding service refuses, {reason}")
        return _NotNow(reason, _retry_after_s(response))


def _client(base_url: str, api_key: str | None, patience: Patience) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=base_url,
        headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        timeout=httpx.Timeout(patience.timeout_s, connect=min(patience.timeout_s, 5.0)),
        limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
    )


def _retry_after_s(response: httpx.Response) -> float | None:
    try:
        return max(float(response.headers.get("Retry-After", "")), 0.0)
    except ValueError:  # none, or a date
        return None


def _decode(response: httpx.Response, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(response.content, type=kind)
    except msgspec.DecodeError as error:
        raise EmbedderRefused(f"The embedding service's answer is not OpenAI's shape: {error}") from error


def _numbers(embedding: str | list[float]) -> Vectors:
    """Base64 of little-endian float32, or plain numbers from a server that ignores `encoding_format`."""
    if isinstance(embedding, list):
        return np.asarray(embedding, dtype=np.float32)
    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
    except (binascii.Error, ValueError) as error:
        raise EmbedderRefused(f"The embedding service sent broken base64: {error}") from error


def _unit_rows(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: Vectors = vectors / np.maximum(lengths, np.float32(1e-12))
    return units
