"""/v1/conversations, as OpenAI's SDK uses them: turns that are kept, for any number of responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from readahead_agents.conversations.store import Conversation
from readahead_platform.api.vector_store_fields import Metadata
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_platform.responses.deleted import with_deletions
from readahead_platform.responses.items import InputItem, Item, kept_items
from readahead_platform.responses.nesting import BoundedBody

router = APIRouter()
MAX_ITEMS_AT_ONCE = 20
NewItems = Annotated[list[InputItem], Field(max_length=MAX_ITEMS_AT_ONCE)]


class ConversationRequest(BoundedBody):
    """What it begins with."""

    items: NewItems | None = None
    metadata: Metadata | None = None


class ConversationUpdate(BoundedBody):
    """The whole metadata; a null takes it away."""

    metadata: Metadata | None


class ItemsRequest(BoundedBody):
    """Items for its end."""

    items: NewItems


@router.post("/v1/conversations")
async def create_conversation(tenant: Tenant, context: Context, body: ConversationRequest) -> dict[str, Any]:
    items = kept_items(body.items or [])
    return conversation_object(await context.conversations.create(tenant, body.metadata or {}, items))


@router.get("/v1/conversations/{conversation_id}")
async def get_conversation(conversation_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    return conversation_object(await context.conversations.get(tenant, conversation_id))


@router.post("/v1/conversations/{conversation_id}")
async def update_conversation(
    conversation_id: str, tenant: Tenant, context: Context, body: ConversationUpdate
) -> dict[str, Any]:
    return conversation_object(await context.conversations.change(tenant, conversation_id, body.metadata or {}))


@router.delete("/v1/conversations/{conversation_id}")
async def delete_conversation(conversation_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    """With its items, and with the responses that were turns of it."""
    await context.conversations.get(tenant, conversation_id)
    async with context.runs.without_turns(conversation_id):
        await context.conversations.remove(tenant, conversation_id)
    return {"id": conversation_id, "object": "conversation.deleted", "deleted": True}


@router.post("/v1/conversations/{conversation_id}/items")
async def create_items(conversation_id: str, tenant: Tenant, context: Context, body: ItemsRequest) -> dict[str, Any]:
    items = kept_items(body.items)
    await context.conversations.append(tenant, conversation_id, items)
    return _items_object(items, has_more=False)


@router.get("/v1/conversations/{conversation_id}/items")
async def list_items(
    conversation_id: str,
    tenant: Tenant,
    context: Context,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: str | None = None,
    order: Literal["asc", "desc"] = "desc",
) -> dict[str, Any]:
    """OpenAI's bounds; `include` adds nothing, as items are shown whole."""
    items, has_more = await context.conversations.page(
        tenant, conversation_id, after=after, limit=limit, ascending=order == "asc"
    )
    return _items_object(await with_deletions(context.library, tenant, items), has_more=has_more)


@router.get("/v1/conversations/{conversation_id}/items/{item_id}")
async def get_item(conversation_id: str, item_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    item = await context.conversations.get_item(tenant, conversation_id, item_id)
    [shown] = await with_deletions(context.library, tenant, [item])
    return shown


@router.delete("/v1/conversations/{conversation_id}/items/{item_id}")
async def delete_item(conversation_id: str, item_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    """The conversation without it."""
    return conversation_object(await context.conversations.remove_item(tenant, conversation_id, item_id))


def conversation_object(conversation: Conversation) -> dict[str, Any]:
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": int(conversation.created_at.timestamp()),
        "metadata": dict(conversation.metadata),
    }


def _items_object(items: Sequence[Item], *, has_more: bool) -> dict[str, Any]:
    first, last = (items[0]["id"], items[-1]["id"]) if items else (None, None)
    return {"object": "list", "data": list(items), "first_id": first, "last_id": last, "has_more": has_more}
