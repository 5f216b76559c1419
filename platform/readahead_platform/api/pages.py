"""Page images with quotes highlighted, for a key or a signed link."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_platform.gateway.page_links import parse_boxes
from readahead_retrieval.errors import DocumentRemoved

router = APIRouter()
MAX_PAGE = 1_000_000
"""More than any file has; larger numbers fit no database's column."""
_HEADERS = {"Cache-Control": "private, max-age=600"}


@router.get("/v1/documents/{document_id}/pages/{number}.png", response_class=Response)
async def page_image(
    document_id: str,
    number: Annotated[int, Path(ge=1, le=MAX_PAGE)],
    tenant: Tenant,
    context: Context,
    boxes: str = "",
    width: Annotated[int, Query(ge=64, le=2400)] = 1000,
) -> Response:
    """One page as PNG. `boxes` is "x0,y0,x1,y1;…" in fractions of the page."""
    try:
        highlights = parse_boxes(boxes)
    except ValueError as error:
        raise ApiError(400, f"boxes: {error}.", param="boxes", code="invalid_value") from error
    try:
        image = await context.library.render_page(tenant, document_id, number, highlights, width)
    except DocumentRemoved as error:  # an old chat cites it: not a wrong link
        raise ApiError(410, error.message, param="document_id", code="document_deleted") from error
    return Response(image, media_type="image/png", headers=_HEADERS)
