"""GET /v1/models and POST /tokenize: what is served, and how long a text is to it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from readahead_serving.api.context import ServerContext
from readahead_serving.api.fields import RequestModel, Text
from readahead_serving.api.models import Models
from readahead_serving.errors import EngineUnavailable, ModelNotFound

MAX_TEXTS = 8192
"""As many as a conversation may have messages."""


class TokenizeRequest(RequestModel):
    """The body of a tokenize request."""

    text: Text | Annotated[list[Text], Field(max_length=MAX_TEXTS)]
    """One text, or several to be counted at once."""
    model: str | None = None
    """A served model; the language model where there is none."""


def catalogue_router(context: ServerContext) -> APIRouter:
    """The model list and the token counter."""
    router = APIRouter()
    models = context.models

    def listed() -> list[dict[str, Any]]:
        fixed = {"object": "model", "created": models.created, "owned_by": "readahead"}
        entries: list[dict[str, Any]] = []
        if (language := models.language) is not None:
            own = {"backend": language.backend, "packs": language.packs is not None}
            entries.append({"id": language.name, **fixed, "max_model_len": language.max_model_len, **own})
        if (embedding := models.embedding) is not None:
            told = {"max_model_len": embedding.max_model_len, "revision": embedding.revision}
            entries.append({"id": embedding.name, **fixed, **told})
        return entries

    @router.get("/v1/models")
    async def list_models() -> dict[str, Any]:
        return {"object": "list", "data": listed()}

    @router.get("/v1/models/{name:path}")
    async def retrieve_model(name: str) -> dict[str, Any]:
        found = next((entry for entry in listed() if entry["id"] == name), None)
        if found is None:
            raise ModelNotFound(name, models.names())
        return found

    @router.post("/tokenize")
    async def tokenize(body: TokenizeRequest) -> dict[str, Any]:
        texts = [body.text] if isinstance(body.text, str) else body.text
        counts, max_model_len = await _count(models, texts, body.model)
        told = {"count": counts[0]} if isinstance(body.text, str) else {"counts": counts}
        return {**told, "max_model_len": max_model_len}

    return router


async def _count(models: Models, texts: list[str], name: str | None) -> tuple[list[int], int]:
    """Tokens of each text to a model, and its window."""
    if models.embedding is not None and name == models.embedding.name:
        sequences = await asyncio.to_thread(models.embedding.tokenize, texts)
        return [len(sequence) for sequence in sequences], models.embedding.max_model_len
    if name is None and models.language is None:
        raise EngineUnavailable("The language model is still loading.")
    model = models.get_language(name or models.names()[0])
    counts = await asyncio.to_thread(lambda: [len(model.tokenizer.encode_prompt(text)) for text in texts])
    return counts, model.max_model_len
