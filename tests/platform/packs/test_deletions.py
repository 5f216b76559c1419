"""What is deleted, or taken out of answers, is in no pack: a real LLM server's API and shelf."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from readahead_platform.packs.wishes import PackWishes
from readahead_platform.store.database import database_url, open_database
from readahead_serving.errors import EngineBusy
from readahead_serving.packs.record import PackRecord
from tests.platform.gateway import Gateway, add_document, running_gateway
from tests.platform.packs.asking import QUESTION, ask, call, packed, packed_document, shown_text, two_documents, uses
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import until
from tests.serving.packs import Bench


async def test_a_removed_document_answers_no_more_from_the_pack(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path
) -> None:
    ids = await add_document(gateway, "manuals", manual)
    more = samples.write_pdf(tmp_path / "valves.pdf", samples.lines("Valve 7 opens at 3 bar and closes at 2 bar."))
    file = await gateway.sdk().files.create(file=more, purpose="assistants")
    await gateway.sdk().vector_stores.files.create_and_poll(file.id, vector_store_id=ids["store"])
    await packed(gateway, bench, ids["store"])
    bench.engine.core.hold = True
    await gateway.sdk().vector_stores.files.delete(file.id, vector_store_id=ids["store"])
    await until(lambda: len(bench.engine.core.held) == 1)
    assert (await ask(gateway))["readahead"]["route"]["chosen"] == "rag", "until the pack of the rest is built"
    assert all("Valve 7" not in message.content for message in gateway.llm.calls[-1].messages)
    body = {"model": "kb/manuals", "messages": [QUESTION], "readahead": {"route": "cag"}}
    refused = await gateway.http().post("/v1/chat/completions", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "pack_unavailable")
    assert "Its pack is building" in refused.text
    bench.engine.core.hold = False
    pack_id, salt, tokens = bench.engine.core.held.pop()
    bench.engine.core.build_pack(pack_id, salt, tokens)
    await until(lambda: all(record.is_ready for record in bench.shelf.everybodys()))
    await ask(gateway, "cag")
    assert "Valve 7" not in gateway.llm.calls[-1].messages[0].content
    assert len((await call(gateway, "GET", "/v1/packs"))["data"]) == 1, "the pack that held it is gone"


async def test_a_deleted_knowledge_base_leaves_no_pack(gateway: Gateway, bench: Bench, manual: Path) -> None:
    ids = await add_document(gateway, "manuals", manual)
    await packed(gateway, bench, ids["store"])
    await gateway.sdk().vector_stores.delete(ids["store"])
    await until(lambda: bench.shelf.everybodys() == [])
    assert bench.engine.core.attached == {}


async def test_the_pack_of_a_document_that_is_removed_goes_with_it(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path
) -> None:
    ids = await two_documents(gateway, manual, tmp_path)
    await packed_document(gateway, bench, ids["store"], ids["valves"])
    await gateway.sdk().vector_stores.files.delete(ids["valves_file"], vector_store_id=ids["store"])
    assert (await ask(gateway))["readahead"]["route"]["chosen"] == "rag"
    assert bench.shelf.everybodys() == []
    refused = await gateway.http().post(f"/v1/vector_stores/{ids['store']}/pack", json={"document": ids["valves"]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "document_not_found")


async def test_a_disabled_chunk_answers_from_no_pack(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path
) -> None:
    ids = await two_documents(gateway, manual, tmp_path)
    await packed(gateway, bench, ids["store"])
    await packed_document(gateway, bench, ids["store"], ids["document"])
    path = f"/v1/documents/{ids['document']}/chunks"
    chunks = (await call(gateway, "GET", path))["data"]
    warranty = next(chunk for chunk in chunks if "30 months" in chunk["text"])
    bench.engine.core.hold = True
    await call(gateway, "POST", f"{path}/{warranty['id']}", {"disabled": True})
    assert (await ask(gateway))["readahead"]["route"]["chosen"] == "rag", "the new packs are not built yet"
    assert all("30 months" not in message.content for message in gateway.llm.calls[-1].messages)
    await until(lambda: len(bench.engine.core.held) == 1)  # the other waits its turn
    bench.engine.core.hold = False
    for pack_id, salt, tokens in bench.engine.core.held:
        bench.engine.core.build_pack(pack_id, salt, tokens)
    await until(lambda: all(record.is_ready for record in bench.shelf.everybodys()))
    await ask(gateway, "cag")
    read = gateway.llm.calls[-1].messages[0].content
    assert "30 months" not in read
    assert "mineral oil of class 32" in read, "the rest of the document is there"
    built = (await call(gateway, "GET", "/v1/packs"))["data"]
    assert len(built) == 2, "both, each built anew"
    assert [use.document_id for use in uses(bench)] == [None, ids["document"]]


async def test_a_deleted_documents_text_is_in_no_pack_though_nobody_asks_anything(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path
) -> None:
    ids = await two_documents(gateway, manual, tmp_path)
    whole = await packed(gateway, bench, ids["store"])
    single = await packed_document(gateway, bench, ids["store"], ids["valves"])
    other = await packed_document(gateway, bench, ids["store"], ids["document"], pin=True)
    assert "Valve 7" in await shown_text(gateway, whole["id"])
    await gateway.context.library.remove_document("acme", ids["valves"])  # as tools and the web page do
    await until(lambda: {whole["id"], single["id"]}.isdisjoint(record.pack_id for record in bench.shelf.everybodys()))
    assert [await shown_text(gateway, pack["id"]) for pack in (whole, single)] == ["", ""]
    await until(lambda: [use.document_id for use in uses(bench)] == [ids["document"], None])  # of equal text
    await until(lambda: all(record.is_ready for record in bench.shelf.everybodys()))
    left = (await call(gateway, "GET", "/v1/packs"))["data"]
    assert [[one["title"] for one in pack["documents"]] for pack in left] == [["manual.pdf"]] * len(left)
    assert other["id"] in {pack["id"] for pack in left}, "what holds nothing deleted stays"
    new = await call(gateway, "GET", f"/v1/vector_stores/{ids['store']}/pack")
    assert new["state"] == "resident", "the pack of the rest was built without being asked for again"
    assert not any(b"Valve 7" in path.read_bytes() for path in bench.root.rglob("*") if path.is_file())


@pytest.mark.parametrize("of_document", [False, True])
async def test_a_document_deleted_while_its_pack_is_built_is_in_no_pack(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path, of_document: bool
) -> None:
    ids = await two_documents(gateway, manual, tmp_path)
    bench.engine.core.hold = True
    body = {"document": ids["valves"]} if of_document else {}
    pack = await call(gateway, "POST", f"/v1/vector_stores/{ids['store']}/pack", body)
    await until(lambda: len(bench.engine.core.held) == 1)
    bench.engine.core.hold = False
    await gateway.sdk().vector_stores.files.delete(ids["valves_file"], vector_store_id=ids["store"])
    await until(lambda: all(record.is_ready for record in bench.shelf.everybodys()))
    assert await shown_text(gateway, pack["id"]) == ""
    assert not any(b"Valve 7" in path.read_bytes() for path in bench.root.rglob("*") if path.is_file())


async def test_a_document_deleted_after_its_text_was_read_and_before_its_pack_was_asked_for_is_in_no_pack(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await two_documents(gateway, manual, tmp_path)
    create = bench.shelf.create

    async def create_late(*arguments: Any, **named: Any) -> Any:
        await gateway.sdk().vector_stores.files.delete(ids["valves_file"], vector_store_id=ids["store"])
        return await create(*arguments, **named)

    monkeypatch.setattr(bench.shelf, "create", create_late)
    refused = await gateway.http().post(f"/v1/vector_stores/{ids['store']}/pack", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "documents_changed")
    assert all(one.title != "valves.pdf" for record in bench.shelf.everybodys() for one in record.source.documents)


async def test_what_was_deleted_while_the_llm_server_was_away_is_not_read_from_a_pack_later(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await two_documents(gateway, manual, tmp_path)
    pack = await packed(gateway, bench, ids["store"])
    with monkeypatch.context() as away:
        away.setattr(bench.shelf, "list_all", lambda salt: [])
        await gateway.sdk().vector_stores.files.delete(ids["valves_file"], vector_store_id=ids["store"])
    assert len(bench.shelf.everybodys()) == 1, "nobody told it"
    assert await shown_text(gateway, pack["id"]) == ""


async def test_the_pack_of_a_document_is_built_anew_without_a_disabled_chunk(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path
) -> None:
    ids = await two_documents(gateway, manual, tmp_path)
    old = await packed_document(gateway, bench, ids["store"], ids["document"], pin=True, ttl=3600)
    path = f"/v1/documents/{ids['document']}/chunks"
    warranty = next(one for one in (await call(gateway, "GET", path))["data"] if "30 months" in one["text"])
    await call(gateway, "POST", f"{path}/{warranty['id']}", {"disabled": True})
    assert await shown_text(gateway, old["id"]) == ""
    await until(lambda: [record.is_ready for record in bench.shelf.everybodys()] == [True])
    [new] = (await call(gateway, "GET", "/v1/packs"))["data"]
    assert (new["name"], new["pin"], new["ttl"]) == (old["name"], True, 3600)
    text = await shown_text(gateway, new["id"])
    assert "30 months" not in text and "mineral oil of class 32" in text
    route = (await ask(gateway, "cag"))["readahead"]["route"]
    assert (route["chosen"], route["pack_document"]) == ("cag", ids["document"])


async def test_a_deletion_is_answered_though_the_llm_server_hangs_and_the_packs_end_follows(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await two_documents(gateway, manual, tmp_path)
    pack = await packed(gateway, bench, ids["store"])
    delete, asked, answers = bench.shelf.delete, asyncio.Event(), asyncio.Event()

    async def hang(salt: str, pack_id: str) -> None:
        asked.set()
        await answers.wait()
        await delete(salt, pack_id)

    monkeypatch.setattr(bench.shelf, "delete", hang)
    await gateway.sdk().vector_stores.files.delete(ids["valves_file"], vector_store_id=ids["store"])
    await asyncio.wait_for(asked.wait(), 30)
    assert [record.pack_id for record in bench.shelf.everybodys()] == [pack["id"]], "it is still to be taken away"
    answers.set()
    await until(lambda: pack["id"] not in {record.pack_id for record in bench.shelf.everybodys()})


async def test_a_dropped_pack_is_asked_for_until_it_stands_even_by_the_next_gateway(
    llm_url: str, bench: Bench, manual: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = 0

    async def refuse(*arguments: Any, **named: Any) -> PackRecord:
        nonlocal refusals
        refusals += 1
        raise EngineBusy("The engine starts again.", 1.0)

    async with running_gateway(tmp_path / "home", llm_url=llm_url) as first:
        ids = await two_documents(first, manual, tmp_path)
        await packed(first, bench, ids["store"])
        monkeypatch.setattr(bench.shelf, "create", refuse)
        await first.sdk().vector_stores.files.delete(ids["valves_file"], vector_store_id=ids["store"])
        await until(lambda: refusals >= 2)
        assert bench.shelf.everybodys() == []
    monkeypatch.undo()
    async with running_gateway(tmp_path / "home", llm_url=llm_url) as second:
        await until(lambda: [record.is_ready for record in bench.shelf.everybodys()] == [True])
        [pack] = (await call(second, "GET", "/v1/packs"))["data"]
        assert [one["title"] for one in pack["documents"]] == ["manual.pdf"]
        await call(second, "DELETE", f"/v1/packs/{pack['id']}")
    database = await open_database(database_url(tmp_path / "home", ""))
    assert await PackWishes(database).of_tenant("acme") == []
    await database.close()
