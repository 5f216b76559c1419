"""docs/api.md says what the code says."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.routing import BaseRoute, Route

from readahead_platform import api
from readahead_platform.api.kb_chat_request import REFUSED, KbChatRequest
from readahead_platform.api.packs import KbPackRequest
from readahead_serving.api.app import create_app
from readahead_serving.api.chat_request import ChatRequest
from readahead_serving.api.completions import CompletionRequest
from readahead_serving.api.embeddings import EmbeddingRequest
from readahead_serving.api.models import Models
from readahead_serving.api.pack_fields import DocumentsRequest, PackPatch, PackRequest
from readahead_serving.settings import ServingSettings

PAGE = (Path(__file__).parents[1] / "docs" / "api.md").read_text("utf-8")
ROW = re.compile(r"^\| (`[^|]*`) \|", re.MULTILINE)


def section(heading: str) -> str:
    """The text below a heading, up to the next one."""
    return re.split(r"^#+ ", PAGE.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def listed(*headings: str) -> set[str]:
    """The names in the first columns of these sections' tables."""
    cells = (cell for heading in headings for cell in ROW.findall(section(heading)))
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


CHAT, TEXT = "`POST /v1/chat/completions`", "`POST /v1/completions`"


@pytest.mark.parametrize(
    ("model", "headings"),
    [
        (ChatRequest, (CHAT,)),
        (CompletionRequest, (CHAT, TEXT)),
        (EmbeddingRequest, ("`POST /v1/embeddings`",)),
        (KbChatRequest, ("`kb/<name>`",)),
        (PackRequest, ("`/v1/packs`",)),
        (PackPatch, ("`/v1/packs`",)),
        (DocumentsRequest, ("`/v1/packs`",)),
        (KbPackRequest, ("`/v1/packs`",)),
    ],
)
def test_every_field_that_is_read_is_on_the_page(model: type[BaseModel], headings: Iterable[str]) -> None:
    assert set(model.model_fields) <= listed(*headings)


def test_every_field_that_a_knowledge_base_refuses_is_on_the_page() -> None:
    assert set(REFUSED) <= listed("`kb/<name>`")


def test_a_field_called_ignored_is_read_nowhere() -> None:
    ignored = {
        name
        for line in section(CHAT).splitlines()
        if "| ignored |" in line
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }
    assert ignored
    assert not ignored & set(ChatRequest.model_fields)


def paths(routes: Iterable[BaseRoute]) -> set[str]:
    return {re.sub(r":path}", "}", route.path) for route in routes if isinstance(route, Route)}


def test_every_route_of_the_llm_server_is_on_the_page() -> None:
    app: FastAPI = create_app(ServingSettings(), Models())
    missing = {path for path in paths(app.routes) - {"/openapi.json"} if f"{path}`" not in PAGE}
    assert not missing


def test_every_route_of_the_gateway_is_on_the_page() -> None:
    modules = [importlib.import_module(f"{api.__name__}.{each.name}") for each in pkgutil.iter_modules(api.__path__)]
    routers = [module.router for module in modules if hasattr(module, "router")]
    assert len(routers) > 10
    missing = {path for router in routers for path in paths(router.routes) if f"{path}`" not in PAGE}
    assert not missing
