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
_NAMED = 20
_QUOTED_CHARS = 300


@router.get("/v1/models")
async def list_models(tenant: Tenant, context: Context) -> dict[str, Any]:
    return {"object": "list", "data": await _models(tenant, context)}


@router.get("/v1/models/{model:path}")
async def get_model(model: str, tenant: Tenant, context: Context) -> Mapping[str, Any]:
    entries = await _models(tenant, context)
    found = next((entry for entry in entries if entry["id"] == model), None)
    if found is None:
        raise await model_not_found(tenant, context, model)
    return found


async def model_not_found(tenant: str, context: GatewayContext, model: str) -> ApiError:
    """The error that names the models there are, the first of many."""
    try:
        known = [str(entry["id"]) for entry in await _models(tenant, context)]
    except ApiError:  # the LLM server is away: no reason to hide what is wrong with the request
        known = [KB_PREFIX + kb.name for kb in await context.library.list_kbs(tenant)]
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    there_are = f"There are {', '.join(known[:_NAMED])}{more}." if known else "There are none yet."
    message = f"The model {model[:_QUOTED_CHARS]!r} does not exist. {there_are} GET /v1/models lists them."
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
