"""Equal texts are one pack of a tenant, which every knowledge base and document that it was asked for has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from readahead_platform.packs.labels import uses_of
from readahead_platform.packs.upkeep import MAX_BUILDS
from readahead_platform.packs.wishes import PackWishes
from readahead_platform.store.database import database_url, open_database
from readahead_serving.engine.messages import SequenceOutput
from tests.platform.gateway import Gateway, add_document
from tests.platform.packs.asking import QUESTION, call, packed, packed_document, shown_text, two_documents, uses
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import until
from tests.serving.packs import Bench, StandInCore

STORES = ("manuals", "copies")


async def two_stores(gateway: Gateway, bench: Bench, manual: Path) -> tuple[dict[str, str], dict[str, str], str]:
    """Two knowledge bases of equal text, and the one pack that both have."""
    first, second = [await add_document(gateway, name, manual) for name in STORES]
    pack = await packed(gateway, bench, first["store"])
    assert (await packed(gateway, bench, second["store"]))["id"] == pack["id"]
    return first, second, str(pack["id"])


async def route(gateway: Gateway, store: str) -> Any:
    body = {"model": f"kb/{store}", "messages": [QUESTION]}
    answer = await call(gateway, "POST", "/v1/chat/completions", body)
    return answer["choices"][0]["message"]["readahead"]["route"]["chosen"]


@pytest.mark.parametrize("kept", [0, 1])
async def test_two_knowledge_bases_of_equal_text_have_one_pack_which_goes_with_the_last_of_them(
    gateway: Gateway, bench: Bench, manual: Path, kept: int
) -> None:
    *stores, pack = await two_stores(gateway, bench, manual)
    assert [await route(gateway, name) for name in STORES] == ["cag", "cag"]
    left, gone = stores[kept], stores[1 - kept]
    await gateway.sdk().vector_stores.delete(gone["store"])
    await until(lambda: [use.kb_id for use in uses(bench)] == [left["store"]])
    assert await route(gateway, STORES[kept]) == "cag"
    assert "30 months" in await shown_text(gateway, pack)
    await gateway.context.library.remove_document("acme", left["document"])
    await until(lambda: bench.shelf.everybodys() == [])
    await until(lambda: list(bench.root.iterdir()) == [])
    assert bench.engine.core.attached == {}


async def test_a_packs_end_in_one_knowledge_base_leaves_it_to_the_other_as_that_one_keeps_it(
    gateway: Gateway, bench: Bench, manual: Path
) -> None:
    first, second = [await add_document(gateway, name, manual) for name in STORES]
    for store, pin in ((first, True), (second, False)):
        await call(gateway, "POST", f"/v1/vector_stores/{store['store']}/pack", {"pin": pin})
    await until(lambda: all(record.is_ready for record in bench.shelf.everybodys()))
    await call(gateway, "DELETE", f"/v1/vector_stores/{second['store']}/pack")
    shown = await call(gateway, "GET", f"/v1/vector_stores/{first['store']}/pack")
    assert (shown["state"], shown["pin"]) == ("resident", True)
    gone = await gateway.http().get(f"/v1/vector_stores/{second['store']}/pack")
    assert gone.status_code == 404


async def test_a_pack_that_grows_in_one_knowledge_base_stays_as_it_was_in_the_other(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path
) -> None:
    first, second, old = await two_stores(gateway, bench, manual)
    more = samples.write_pdf(tmp_path / "valves.pdf", samples.lines("Valve 7 opens at 3 bar and closes at 2 bar."))
    file = await gateway.sdk().files.create(file=more, purpose="assistants")
    await gateway.sdk().vector_stores.files.create_and_poll(file.id, vector_store_id=first["store"])
    new = await packed(gateway, bench, first["store"])
    assert (new["extends"], len(new["documents"])) == (old, 2)
    await until(lambda: [use.kb_id for use in uses(bench)] == [second["store"], first["store"]])
    assert [await route(gateway, name) for name in STORES] == ["cag", "cag"]
    held = await call(gateway, "GET", f"/v1/vector_stores/{second['store']}/pack")
    assert (held["id"], held["state"]) == (old, "resident")


async def test_a_knowledge_base_and_its_only_document_have_one_pack(
    gateway: Gateway, bench: Bench, manual: Path
) -> None:
    ids = await add_document(gateway, "manuals", manual)
    pack = await packed(gateway, bench, ids["store"])
    assert (await packed_document(gateway, bench, ids["store"], ids["document"]))["id"] == pack["id"]
    assert [use.document_id for use in uses(bench)] == [None, ids["document"]]
    assert (await call(gateway, "GET", f"/v1/vector_stores/{ids['store']}/pack"))["state"] == "resident"
    await gateway.context.library.remove_document("acme", ids["document"])
    await until(lambda: bench.shelf.everybodys() == [])


async def test_a_pack_of_the_first_version_is_found_and_goes_with_its_text(
    gateway: Gateway, bench: Bench, manual: Path
) -> None:
    ids = await add_document(gateway, "manuals", manual)
    pack = await packed(gateway, bench, ids["store"])
    [use] = uses_of(pack)
    old = {"kb": use.kb_id, "content": use.content}
    await call(gateway, "PATCH", f"/v1/packs/{pack['id']}", {"metadata": old})
    assert (await call(gateway, "GET", f"/v1/vector_stores/{ids['store']}/pack"))["metadata"] == old
    await gateway.context.library.remove_document("acme", ids["document"])
    await until(lambda: bench.shelf.everybodys() == [])


async def test_a_pack_whose_building_fails_five_times_is_given_up(
    gateway: Gateway,
    bench: Bench,
    manual: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = []

    def fail(core: StandInCore, pack_id: str, salt: str, token_ids: list[int]) -> None:
        asked.append(pack_id)
        core.ends.append(SequenceOutput(request_id=pack_id, token_ids=[], finish_reason="error"))

    monkeypatch.setattr("readahead_platform.packs.upkeep.LONGEST_PAUSE_S", 0.02)
    monkeypatch.setattr("readahead_platform.packs.upkeep.FIRST_PAUSE_S", 0.02)
    ids = await two_documents(gateway, manual, tmp_path)
    await packed(gateway, bench, ids["store"])
    monkeypatch.setattr(StandInCore, "build_pack", fail)
    await gateway.context.library.remove_document("acme", ids["valves"])
    await until(lambda: f"failed {MAX_BUILDS} times" in caplog.text)
    assert len(asked) == MAX_BUILDS == 5
    database = await open_database(database_url(tmp_path / "home", ""))
    try:
        assert await PackWishes(database).of_tenant("acme") == []
    finally:
        await database.close()
    shown = await call(gateway, "GET", f"/v1/vector_stores/{ids['store']}/pack")
    assert (shown["state"], [one["title"] for one in shown["documents"]]) == ("failed", ["manual.pdf"])
