"""POST /v1/embeddings."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BeforeValidator, Field
from starlette.responses import JSONResponse, Response

from readahead_serving.api.completions import TokenIds, as_list_of_inputs
from readahead_serving.api.context import ServerContext
from readahead_serving.api.disconnect import while_connected
from readahead_serving.api.fields import RequestModel, Text
from readahead_serving.embeddings import EmbeddingModel
from readahead_serving.errors import ContextLengthExceeded, RequestRefused

MAX_INPUTS = 2048
"""OpenAI's limit, too."""


class EmbeddingRequest(RequestModel):
    """The body of an embedding request."""

    model: str
    input: Annotated[
        list[Text | TokenIds], BeforeValidator(as_list_of_inputs), Field(min_length=1, max_length=MAX_INPUTS)
    ]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None


def embeddings_router(context: ServerContext) -> APIRouter:
    """The embedding endpoint over `context`'s models."""
    router = APIRouter()

    @router.post("/v1/embeddings")
    async def create_embedding(body: EmbeddingRequest, request: Request) -> Response:
        model = context.models.get_embedding(body.model)
        if body.dimensions not in (None, model.dimension):
            message = f"{model.name} gives {model.dimension} dimensions, not {body.dimensions}; leave dimensions out."
            raise RequestRefused(message, param="dimensions", code="unsupported_value")
        sequences = await asyncio.to_thread(_tokenize, model, body.input)
        rows = await while_connected(request.receive, model.embed(sequences))
        tokens = sum(map(len, sequences))
        context.metrics.embedded_texts.inc(len(rows))
        context.metrics.embedded_tokens.inc(tokens)
        encode = _as_base64 if body.encoding_format == "base64" else _as_floats
        data = [{"object": "embedding", "index": i, "embedding": encode(row)} for i, row in enumerate(rows)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        own = {"model": model.name, "revision": model.revision}
        return JSONResponse({"object": "list", "data": data, "usage": usage, **own})

    return router


def _tokenize(model: EmbeddingModel, inputs: Sequence[str | TokenIds]) -> list[TokenIds]:
    if any(not one for one in inputs):
        raise RequestRefused("An input is empty; leave it out.", param="input", code="invalid_value")
    texts = [one for one in inputs if isinstance(one, str)]
    encoded = iter(model.tokenize(texts))
    sequences = [next(encoded) if isinstance(one, str) else _wrapped(model, one) for one in inputs]
    longest = max(map(len, sequences))
    if longest > model.max_model_len:
        raise ContextLengthExceeded(
            limit=model.max_model_len, prompt_tokens=longest, completion_tokens=0, param="input"
        )
    return sequences


def _wrapped(model: EmbeddingModel, token_ids: TokenIds) -> TokenIds:
    try:
        return model.wrap(token_ids)
    except ValueError as error:
        raise RequestRefused(f"input: {error}.", param="input", code="invalid_value") from error


def _as_floats(row: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(row) // 4}f", row))


def _as_base64(row: bytes) -> Any:
    return base64.b64encode(row).decode()
