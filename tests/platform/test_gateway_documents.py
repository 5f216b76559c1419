"""Files and vector stores, as the official SDK uses them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import openai
import pytest
from PIL import Image

from tests.platform.gateway import Gateway, add_document


async def test_a_file_comes_back_as_it_went_in(gateway: Gateway, tmp_path: Path) -> None:
    sdk = gateway.sdk()
    data = bytes(range(256)) * 20_000
    path = tmp_path / "보고서 1.pdf"
    path.write_bytes(data)
    made = await sdk.files.create(file=path, purpose="user_data")
    assert (made.object, made.bytes, made.filename, made.purpose) == ("file", len(data), "보고서 1.pdf", "user_data")
    assert (await sdk.files.retrieve(made.id)) == made
    assert [file.id async for file in sdk.files.list()] == [made.id]
    content = await sdk.files.content(made.id)
    assert content.content == data
    assert content.response.headers["content-disposition"].startswith("attachment")
    assert (await sdk.files.delete(made.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await sdk.files.retrieve(made.id)


async def test_a_long_list_is_paged_by_the_sdk(gateway: Gateway) -> None:
    sdk = gateway.sdk()
    made = [(await sdk.vector_stores.create(name=f"kb {n}")).id for n in range(5)]
    assert [store.id async for store in sdk.vector_stores.list(limit=2, order="asc")] == made
    assert [store.id async for store in sdk.vector_stores.list(limit=2)] == made[::-1]
    with pytest.raises(openai.BadRequestError) as raised:
        await sdk.vector_stores.list(after="vs_unknown")
    assert raised.value.param == "after"


async def test_a_document_tells_how_far_it_has_come(gateway: Gateway, manual: Path) -> None:
    ids = await add_document(gateway, "manuals", manual)
    sdk = gateway.sdk()
    document = await sdk.vector_stores.files.retrieve(ids["file"], vector_store_id=ids["store"])
    extra = document.model_extra or {}
    assert document.status == "completed"
    assert (extra["state"], extra["pages"], extra["pages_done"], extra["pages_unread"]) == ("searchable", 3, 3, [])
    assert extra["chunks"] == extra["chunks_done"] > 0
    store = await sdk.vector_stores.retrieve(ids["store"])
    assert (store.status, store.file_counts.completed, store.file_counts.in_progress) == ("completed", 1, 0)


async def test_a_search_names_file_and_page(gateway: Gateway, manual: Path) -> None:
    ids = await add_document(gateway, "manuals", manual)
    found = await gateway.sdk().vector_stores.search(ids["store"], query="oil of the gearbox", max_num_results=2)
    best = found.data[0]
    assert (best.file_id, best.filename) == (ids["file"], "manual.pdf")
    assert (best.model_extra or {})["page"] == 2
    assert "600 hours" in best.content[0].text


async def test_a_removed_document_answers_no_more_and_its_file_stays(gateway: Gateway, manual: Path) -> None:
    ids = await add_document(gateway, "manuals", manual)
    sdk = gateway.sdk()
    assert (await sdk.vector_stores.files.delete(ids["file"], vector_store_id=ids["store"])).deleted
    assert (await sdk.files.retrieve(ids["file"])).id == ids["file"]
    with pytest.raises(openai.BadRequestError) as raised:
        await sdk.vector_stores.search(ids["store"], query="oil")
    assert raised.value.code == "knowledge_base_empty"


async def test_a_store_takes_its_first_files_when_it_is_made(gateway: Gateway, manual: Path) -> None:
    sdk = gateway.sdk()
    file = await sdk.files.create(file=manual, purpose="assistants")
    store = await sdk.vector_stores.create(name="manuals", file_ids=[file.id])
    assert store.file_counts.total == 1
    with pytest.raises(openai.NotFoundError):
        await sdk.vector_stores.create(name="others", file_ids=["file-unknown"])
    assert [s.name async for s in sdk.vector_stores.list()] == ["manuals"]


@pytest.mark.parametrize(
    ("name", "status", "code", "openai_code"),
    [
        ("page.html", "failed", "not_pdf", "unsupported_file"),
        ("nothing.pdf", "failed", "empty_file", "invalid_file"),
        ("locked.pdf", "failed", "password_required", "invalid_file"),
        ("scan.pdf", "failed", "needs_ocr", "unsupported_file"),
    ],
)
async def test_a_document_that_cannot_be_read_says_why(
    name: str, status: str, code: str, openai_code: str, gateway: Gateway, manual: Path, tmp_path: Path
) -> None:
    sdk = gateway.sdk()
    file = await sdk.files.create(file=bad_file(tmp_path / name, manual), purpose="assistants")
    store = await sdk.vector_stores.create(name="manuals")
    async with asyncio.timeout(60):
        document = await sdk.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=50)
    assert document.status == status
    assert document.last_error is not None
    assert document.last_error.code == openai_code
    assert document.last_error.message
    assert (document.model_extra or {})["error"]["code"] == code


async def test_a_locked_document_opens_with_its_password(gateway: Gateway, manual: Path, tmp_path: Path) -> None:
    sdk = gateway.sdk()
    file = await sdk.files.create(file=bad_file(tmp_path / "locked.pdf", manual), purpose="assistants")
    store = await sdk.vector_stores.create(name="manuals")
    async with asyncio.timeout(60):
        document = await sdk.vector_stores.files.create_and_poll(
            file.id, vector_store_id=store.id, poll_interval_ms=50, extra_body={"password": "open sesame"}
        )
    assert document.status == "completed", document.last_error


def bad_file(path: Path, manual: Path) -> Path:
    """Writes the file that its name promises."""
    match path.name:
        case "page.html":
            path.write_text("<!doctype html><p>No PDF.", encoding="utf-8")
        case "nothing.pdf":
            path.write_bytes(b"")
        case "locked.pdf":
            lock(manual, path, "open sesame")
        case "scan.pdf":
            Image.effect_noise((400, 500), 60).save(path, "PDF")
    return path


def lock(source: Path, target: Path, password: str) -> None:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(PdfReader(source))
    writer.encrypt(password, algorithm="RC4-128")
    writer.write(target)
