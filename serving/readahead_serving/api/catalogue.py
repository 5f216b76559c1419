"""GET /v1/models and POST /tokenize: what is served, and how long a text is to it."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from readahead_serving.api.context import ServerContext
from readahead_serving.api.fields import RequestModel, Text
from readahead_serving.errors import EngineUnavailable, ModelNotFound


class TokenizeRequest(RequestModel):
    """The body of a tokenize request."""

    text: Text
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
            entries.append({"id": embedding.name, **fixed, "max_model_len": embedding.max_model_len})
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
    async def tokenize(body: TokenizeRequest) -> dict[str, int]:
        if models.embedding is not None and body.model == models.embedding.name:
            sequences = await asyncio.to_thread(models.embedding.tokenize, [body.text])
            return {"count": len(sequences[0]), "max_model_len": models.embedding.max_model_len}
        if body.model is None and models.language is None:
            raise EngineUnavailable("The language model is still loading.")
        model = models.get_language(body.model or models.names()[0])
        tokens = await asyncio.to_thread(model.tokenizer.encode_prompt, body.text)
        return {"count": len(tokens), "max_model_len": model.max_model_len}

    return router
