"""Packs of knowledge bases and of their documents: a real LLM server's API and shelf."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.platform.gateway import Gateway, add_document
from tests.platform.packs.asking import ANSWER, QUESTION, ask, call, packed, packed_document, two_documents
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import until
from tests.serving.packs import Bench


async def test_a_question_on_a_pack_begins_with_its_messages_and_is_cited(
    gateway: Gateway, bench: Bench, manual: Path
) -> None:
    ids = await add_document(gateway, "manuals", manual)
    pack = await packed(gateway, bench, ids["store"])
    assert (pack["name"], pack["state"]) == ("manuals", "resident")
    assert [document["title"] for document in pack["documents"]] == ["manual.pdf"]
    message = await ask(gateway, "cag")
    assert message["content"] == ANSWER
    told = message["readahead"]
    assert told["route"]["chosen"] == "cag"
    citation = told["citations"][0]
    assert (citation["document"], citation["page"]) == ("manual.pdf", 2)
    sent = [{"role": m.role, "content": m.content} for m in gateway.llm.calls[-1].messages]
    begin = (await call(gateway, "GET", f"/v1/packs/{pack['id']}/messages"))["data"]
    assert sent[: len(begin)] == begin
    assert "The warranty of the pump lasts 30 months" in sent[0]["content"], "the whole text is in the pack"
    assert QUESTION["content"] in sent[-1]["content"]
    assert "600 hours" not in sent[-1]["content"], "passages are for citing only"


async def test_auto_takes_a_small_pack_and_says_why(gateway: Gateway, bench: Bench, manual: Path) -> None:
    ids = await add_document(gateway, "manuals", manual)
    assert (await ask(gateway))["readahead"]["route"]["chosen"] == "rag"
    pack = await packed(gateway, bench, ids["store"])
    route = (await ask(gateway))["readahead"]["route"]
    assert route["chosen"] == "cag"
    assert str(pack["tokens"]) in route["why"]


async def test_a_new_document_makes_the_pack_stale_until_its_successor_is_ready(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path
) -> None:
    ids = await add_document(gateway, "manuals", manual)
    old = await packed(gateway, bench, ids["store"])
    more = samples.write_pdf(tmp_path / "valves.pdf", samples.lines("Valve 7 opens at 3 bar and closes at 2 bar."))
    file = await gateway.sdk().files.create(file=more, purpose="assistants")
    await gateway.sdk().vector_stores.files.create_and_poll(file.id, vector_store_id=ids["store"])
    begin = (await call(gateway, "GET", f"/v1/packs/{old['id']}/messages"))["data"][0]["content"]
    stale = await call(gateway, "GET", f"/v1/vector_stores/{ids['store']}/pack")
    assert (stale["state"], stale["reason"].partition(":")[0]) == ("stale", "documents_changed")
    bench.engine.core.hold = True
    for route in ("auto", "cag"):
        chosen = (await ask(gateway, route))["readahead"]["route"]
        assert chosen["chosen"] == "cag"
        assert "documents_changed" in chosen["why"]
        read = gateway.llm.calls[-1].messages[0].content
        assert "The warranty of the pump lasts 30 months" in read
        assert read.endswith("Valve 7 opens at 3 bar and closes at 2 bar."), "the new document stands in the tail"
    assert read.startswith(str(begin)), "the old pack's tokens come first, so that they are not computed"
    await until(lambda: len(bench.engine.core.held) == 1)
    bench.engine.core.hold = False
    pack_id, salt, tokens = bench.engine.core.held.pop()
    bench.engine.core.build_pack(pack_id, salt, tokens)
    await until(lambda: [record.is_ready for record in bench.shelf.everybodys()] == [True])
    chosen = (await ask(gateway))["readahead"]["route"]
    assert chosen["chosen"] == "cag"
    assert "documents_changed" not in chosen["why"]
    new = await call(gateway, "GET", f"/v1/vector_stores/{ids['store']}/pack")
    assert new["extends"] == old["id"]
    assert [document["title"] for document in new["documents"]] == ["manual.pdf", "valves.pdf"]
    assert (await call(gateway, "GET", "/v1/packs"))["data"] == [new]


async def test_packs_are_each_tenants_own(gateway: Gateway, bench: Bench, manual: Path) -> None:
    ids = await add_document(gateway, "manuals", manual)
    pack = await packed(gateway, bench, ids["store"])
    other = gateway.http(gateway.other_key)
    assert (await other.get("/v1/packs")).json()["data"] == []
    forged = {"x-readahead-salt": bench.shelf.everybodys()[0].salt}
    for method, path in (
        ("GET", f"/v1/packs/{pack['id']}"),
        ("DELETE", f"/v1/packs/{pack['id']}"),
        ("PATCH", f"/v1/packs/{pack['id']}"),
        ("GET", f"/v1/packs/{pack['id']}/messages"),
        ("POST", f"/v1/vector_stores/{ids['store']}/pack"),
    ):
        refused = await other.request(method, path, json={}, headers=forged)
        assert refused.status_code == 404, (method, path, refused.text)
    assert (await call(gateway, "GET", f"/v1/packs/{pack['id']}"))["state"] == "resident"


async def test_an_estimate_builds_nothing_and_an_empty_knowledge_base_has_no_pack(
    gateway: Gateway, bench: Bench, manual: Path
) -> None:
    ids = await add_document(gateway, "manuals", manual)
    told = await call(gateway, "POST", f"/v1/vector_stores/{ids['store']}/pack", {"dry_run": True})
    assert told["tokens"] > 400
    assert bench.shelf.everybodys() == []
    missing = await gateway.http().get(f"/v1/vector_stores/{ids['store']}/pack")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "pack_not_found")
    empty = await gateway.sdk().vector_stores.create(name="empty")
    refused = await gateway.http().post(f"/v1/vector_stores/{empty.id}/pack", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "knowledge_base_empty")


async def test_documents_too_large_for_one_pack_are_refused_with_the_numbers_and_what_can_be_done(
    gateway: Gateway, bench: Bench, tmp_path: Path
) -> None:
    long = samples.lines(*["The weir was built of oak and slate in that year."] * 50)
    ids = await add_document(gateway, "river", samples.write_pdf(tmp_path / "river.pdf", long, long))
    url = f"/v1/vector_stores/{ids['store']}/pack"
    for body, param in (
        ({}, "vector_store"),
        ({"dry_run": True}, "vector_store"),
        ({"document": ids["document"]}, "document"),
    ):
        refused = await gateway.http().post(url, json=body)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", param)
        told = re.search(r"takes (\d+) tokens, but the model's window of 4096 tokens", error["message"])
        assert told is not None and int(told[1]) > 4096
        assert "smaller knowledge bases" in error["message"] and "messages" not in error["message"]
        assert ("readahead kb pack river --document" in error["message"]) == (param == "vector_store")


async def test_the_size_of_a_knowledge_base_is_told_by_all_its_documents(
    gateway: Gateway, bench: Bench, tmp_path: Path
) -> None:
    letters = samples.lines(*["a b c d e f g h i j k l m n o p"] * 50)
    ids = await add_document(gateway, "manuals", samples.write_pdf(tmp_path / "a.pdf", letters, letters))
    file = await gateway.sdk().files.create(
        file=samples.write_pdf(tmp_path / "b.pdf", samples.lines("Extraordinarily uncharacteristic.")),
        purpose="assistants",
    )
    await gateway.sdk().vector_stores.files.create_and_poll(file.id, vector_store_id=ids["store"])
    assert (await ask(gateway))["readahead"]["route"]["facts"]["kb_tokens"] == pytest.approx(2 * 50 * 16, rel=0.1)


async def test_deleting_a_knowledge_bases_pack_deletes_it_everywhere(
    gateway: Gateway, bench: Bench, manual: Path
) -> None:
    ids = await add_document(gateway, "manuals", manual)
    await packed(gateway, bench, ids["store"])
    await call(gateway, "DELETE", f"/v1/vector_stores/{ids['store']}/pack")
    assert bench.shelf.everybodys() == []
    assert bench.engine.core.attached == {}


async def test_a_question_reads_the_pack_of_the_document_that_its_evidence_lies_in(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path
) -> None:
    ids = await two_documents(gateway, manual, tmp_path)
    estimate = await call(
        gateway, "POST", f"/v1/vector_stores/{ids['store']}/pack", {"document": ids["document"], "dry_run": True}
    )
    pack = await packed_document(gateway, bench, ids["store"], ids["document"])
    assert pack["tokens"] == estimate["tokens"] and [one["title"] for one in pack["documents"]] == ["manual.pdf"]
    message = await ask(gateway)
    route = message["readahead"]["route"]
    assert (route["chosen"], route["pack_document"]) == ("cag", ids["document"]), route
    facts = route["facts"]
    assert facts["evidence_document"] == "manual.pdf" and facts["evidence_share"] > 0.7
    assert (facts["document_pack_state"], facts["document_pack_tokens"]) == ("resident", pack["tokens"])
    assert facts["kb_tokens"] > 100 and facts["pack_state"] == "none"
    begin = (await call(gateway, "GET", f"/v1/packs/{pack['id']}/messages"))["data"]
    sent = [{"role": m.role, "content": m.content} for m in gateway.llm.calls[-1].messages]
    assert sent[: len(begin)] == begin and "Valve 7" not in sent[0]["content"]
    assert message["readahead"]["citations"][0]["document"] == "manual.pdf"
    assert (await ask(gateway, "rag"))["readahead"]["route"]["chosen"] == "rag", "it can be overridden"
    assert (await ask(gateway, "cag"))["readahead"]["route"]["pack_document"] == ids["document"]
    other = {"role": "user", "content": "At what pressure does valve 7 open?"}
    body = {"model": "kb/manuals", "messages": [other]}
    answer = (await call(gateway, "POST", "/v1/chat/completions", body))["choices"][0]["message"]["readahead"]
    assert answer["route"]["chosen"] == "rag", "its evidence lies elsewhere"


async def test_packs_of_documents_are_bounded_and_pinned_ones_stay(
    gateway: Gateway, bench: Bench, manual: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("readahead_platform.packs.builder.MAX_DOCUMENT_PACKS", 1)
    ids = await two_documents(gateway, manual, tmp_path)
    await packed_document(gateway, bench, ids["store"], ids["document"])
    valves = await packed_document(gateway, bench, ids["store"], ids["valves"], pin=True)
    assert [pack["id"] for pack in (await call(gateway, "GET", "/v1/packs"))["data"]] == [valves["id"]]
    url, body = f"/v1/vector_stores/{ids['store']}/pack", {"document": ids["document"]}
    refused = await gateway.http().post(url, json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "too_many_document_packs")
    assert (await call(gateway, "GET", f"/v1/packs/{valves['id']}"))["state"] == "resident"


async def test_an_answer_shows_its_facts_and_no_time_that_nobody_measured(
    gateway: Gateway, bench: Bench, manual: Path
) -> None:
    await add_document(gateway, "manuals", manual)
    route = (await ask(gateway))["readahead"]["route"]
    assert (route["chosen"], route["estimate_s"], route["estimate_from"]) == ("rag", None, None)
    facts = route["facts"]
    assert facts["kb_tokens"] > 100 and facts["window_tokens"] == gateway.llm.window
    assert (facts["documents_pending"], facts["evidence_document"]) == (0, "manual.pdf")
    assert facts["evidence_share"] == 1.0
