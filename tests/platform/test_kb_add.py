"""Adding documents, and having them read anew, from the command line, over a running gateway."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from readahead_platform.client import GatewayClient
from readahead_platform.commands.add_documents import add_documents
from readahead_platform.commands.knowledge_bases import app
from tests.platform.gateway import Gateway
from tests.retrieval import pdf_samples as samples


async def added(gateway: Gateway, store: str, *files: Path, replace: bool = True) -> list[dict[str, Any]]:
    def run() -> list[dict[str, Any]]:
        with GatewayClient.open() as client:
            return add_documents(client, store, files, None, replace=replace, as_json=True)

    return await asyncio.to_thread(run)


def as_of_an_older_version(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("update documents set reader = 0")


async def kb(*arguments: str) -> str:
    """What `readahead kb …` prints."""
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


async def test_what_an_older_version_read_is_told_and_read_anew(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READAHEAD_URL", gateway.url)
    monkeypatch.setenv("READAHEAD_API_KEY", gateway.key)
    store = (await gateway.context.library.create_kb("acme", "manuals")).id
    plain = samples.write_pdf(tmp_path / "plain.pdf", samples.lines("It has a frame."))
    await added(gateway, store, samples.with_attachments(tmp_path / "pump.pdf", plain, "figures.pdf"))
    [document] = json.loads(await kb("status", "manuals", "--json"))["documents"]
    assert not document["outdated"]
    note = "Attached files are not read: figures.pdf. Upload them by themselves."
    assert document["notes"] == [note]
    assert f"pump.pdf: {note}" in await kb("status", "manuals")
    assert f"pump.pdf: {note}" in await kb("add", "manuals", str(tmp_path / "pump.pdf"))
    assert "No document of manuals" in await kb("refresh", "manuals")
    await asyncio.to_thread(as_of_an_older_version, gateway.context.settings.home / "readahead.db")
    status = await kb("status", "manuals")
    assert "searchable, outdated" in status
    assert "readahead kb refresh manuals" in status

    *_, last = (json.loads(line) for line in (await kb("refresh", "manuals", "--json")).splitlines())
    [told] = last["documents"]
    assert told == {name: value for name, value in document.items() if name != "replaced"} | {
        "file_id": told["file_id"]
    }
    assert "outdated" not in await kb("status", "manuals")
    async with gateway.http() as http:
        again = (await http.post(f"/v1/vector_stores/{store}/refresh", json={"all": True})).json()
        assert [job["document_id"] for job in again["data"]] == [document["document_id"]]


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
