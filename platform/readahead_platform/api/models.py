"""/v1/models: the LLM server's models, and every knowledge base as `kb/<name>`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter

from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.dependencies import Context
from readahead_retrieval.types import KnowledgeBase

router = APIRouter()
KB_PREFIX = "kb/"


@router.get("/v1/models")
async def list_models(tenant: Tenant, context: Context) -> dict[str, Any]:
    return {"object": "list", "data": await _models(tenant, context)}


@router.get("/v1/models/{model:path}")
async def get_model(model: str, tenant: Tenant, context: Context) -> Mapping[str, Any]:
    entries = await _models(tenant, context)
    found = next((entry for entry in entries if entry["id"] == model), None)
    if found is None:
        raise model_not_found(model)
    return found


def model_not_found(model: str) -> ApiError:
    message = f"The model {model!r} does not exist. GET /v1/models lists those that do."
    return ApiError(404, message, param="model", code="model_not_found")


async def _models(tenant: str, context: GatewayContext) -> list[Mapping[str, Any]]:
    kbs = await context.library.list_kbs(tenant)
    return [*await context.llm.list_models(), *(_kb_entry(kb) for kb in kbs)]


def model_name(kb: KnowledgeBase) -> str:
    """By its id where an older one has its name."""
    return KB_PREFIX + (kb.name if kb.owns_name else kb.id)


def _kb_entry(kb: KnowledgeBase) -> Mapping[str, Any]:
    created = int(kb.created_at.timestamp())
    return {"id": model_name(kb), "object": "model", "created": created, "owned_by": "readahead"}
