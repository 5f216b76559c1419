"""/v1/packs: knowledge bases that live in the KV cache."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from readahead_serving.api.context import ServerContext
from readahead_serving.api.generation import salt_of
from readahead_serving.api.models import LanguageModel
from readahead_serving.api.pack_fields import DocumentsRequest, PackPatch, PackRequest, estimate_object, pack_object
from readahead_serving.errors import EngineUnavailable, RequestRefused
from readahead_serving.packs.shelf import PackShelf


def packs_router(context: ServerContext) -> APIRouter:
    """Packs of `context`'s language model. Whose they are is said by the salt header alone."""
    routes = _PackRoutes(context)
    router = APIRouter(prefix="/v1/packs")
    router.add_api_route("", routes.create, methods=["POST"])
    router.add_api_route("", routes.list_all, methods=["GET"])
    router.add_api_route("/{pack_id}", routes.get, methods=["GET"])
    router.add_api_route("/{pack_id}", routes.patch, methods=["PATCH"])
    router.add_api_route("/{pack_id}", routes.delete, methods=["DELETE"])
    router.add_api_route("/{pack_id}/messages", routes.messages, methods=["GET"])
    router.add_api_route("/{pack_id}/documents", routes.extend, methods=["POST"])
    return router


class _PackRoutes:
    def __init__(self, context: ServerContext) -> None:
        self._models = context.models

    def _model(self, name: str | None) -> LanguageModel:
        served = self._models.language
        if name is None and served is not None:
            return served
        if name is None:
            raise EngineUnavailable("The language model is still loading.")
        return self._models.get_language(name)

    def _shelf(self, name: str | None = None) -> PackShelf:
        packs = self._model(name).packs
        if packs is None:
            raise RequestRefused("The backend of this model has no packs.", param="model", code="packs_unsupported")
        return packs

    async def create(self, body: PackRequest, request: Request) -> dict[str, Any]:
        packs = self._shelf(body.model)
        if body.dry_run:
            return estimate_object(await packs.estimate(body.source()), self._model(body.model).max_model_len)
        return pack_object(await packs.create(salt_of(request), body.source(), body.options()))

    async def list_all(self, request: Request) -> dict[str, Any]:
        records = self._shelf().list_all(salt_of(request))
        return {"object": "list", "data": [pack_object(record) for record in records]}

    async def get(self, pack_id: str, request: Request) -> dict[str, Any]:
        return pack_object(self._shelf().get(salt_of(request), pack_id))

    async def messages(self, pack_id: str, request: Request) -> dict[str, Any]:
        """What a chat request must begin with to read the pack."""
        return {"object": "list", "data": self._shelf().get(salt_of(request), pack_id).source.rendered()}

    async def patch(self, pack_id: str, body: PackPatch, request: Request) -> dict[str, Any]:
        packs, salt = self._shelf(), salt_of(request)
        options = body.applied_to(packs.get(salt, pack_id).options)
        return pack_object(await packs.update(salt, pack_id, options))

    async def extend(self, pack_id: str, body: DocumentsRequest, request: Request) -> dict[str, Any]:
        documents = [document.document() for document in body.documents]
        return pack_object(await self._shelf().extend(salt_of(request), pack_id, documents, body.metadata))

    async def delete(self, pack_id: str, request: Request) -> dict[str, Any]:
        await self._shelf().delete(salt_of(request), pack_id)
        return {"id": pack_id, "object": "pack.deleted", "deleted": True}
