"""Adding documents from the command line, over a running gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from readahead_platform.client import GatewayClient
from readahead_platform.commands.add_documents import add_documents
from tests.platform.gateway import Gateway
from tests.retrieval import pdf_samples as samples


async def added(gateway: Gateway, store: str, *files: Path, replace: bool = True) -> list[dict[str, Any]]:
    def run() -> list[dict[str, Any]]:
        with GatewayClient.open() as client:
            return add_documents(client, store, files, None, replace=replace, as_json=True)

    return await asyncio.to_thread(run)


async def test_a_file_that_takes_the_place_of_one_of_its_name_says_so(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READAHEAD_URL", gateway.url)
    monkeypatch.setenv("READAHEAD_API_KEY", gateway.key)
    paths = []
    for folder, text in (("here", "The pump weighs 41 kilograms."), ("there", "The mixer weighs 12 kilograms.")):
        (tmp_path / folder).mkdir()
        paths.append(samples.write_pdf(tmp_path / folder / "manual.pdf", samples.lines(text)))
    store = (await gateway.context.library.create_kb("acme", "manuals")).id
    [first] = await added(gateway, store, paths[0])
    assert (first["state"], first["replaced"]) == ("searchable", False)
    [again] = await added(gateway, store, paths[0])
    assert not again["replaced"]  # the same file is the same document
    [other] = await added(gateway, store, paths[1])
    assert other["replaced"]
    [both] = await added(gateway, store, paths[0], replace=False)
    assert not both["replaced"]
    assert len(await gateway.context.library.list_documents("acme", store)) == 2
