"""What the tests of packs ask a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from readahead_platform.packs.labels import PackUse, uses_of
from tests.platform.gateway import Gateway, add_document
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import until
from tests.serving.packs import Bench

ANSWER = "The oil of the gearbox is changed after 600 hours of work."
QUESTION = {"role": "user", "content": "When is the oil of the gearbox changed?"}


async def call(
    gateway: Gateway, method: str, path: str, body: dict[str, Any] | None = None, *, key: str | None = None
) -> dict[str, Any]:
    response = await gateway.http(key).request(method, path, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def ask(gateway: Gateway, route: str = "auto") -> dict[str, Any]:
    body = {"model": "kb/manuals", "messages": [QUESTION], "readahead": {"route": route}}
    message: dict[str, Any] = (await call(gateway, "POST", "/v1/chat/completions", body))["choices"][0]["message"]
    return message


async def packed(gateway: Gateway, bench: Bench, store: str) -> dict[str, Any]:
    pack = await call(gateway, "POST", f"/v1/vector_stores/{store}/pack", {})
    await until(lambda: all(record.is_ready for record in bench.shelf.everybodys()))
    return await call(gateway, "GET", f"/v1/packs/{pack['id']}")


async def two_documents(gateway: Gateway, manual: Path, tmp_path: Path) -> dict[str, str]:
    """Ids of the store, of the manual and of one more document."""
    ids = await add_document(gateway, "manuals", manual)
    more = samples.write_pdf(tmp_path / "valves.pdf", samples.lines("Valve 7 opens at 3 bar and closes at 2 bar."))
    file = await gateway.sdk().files.create(file=more, purpose="assistants")
    added = await gateway.sdk().vector_stores.files.create_and_poll(file.id, vector_store_id=ids["store"])
    assert added.model_extra is not None
    return {**ids, "valves": added.model_extra["document_id"], "valves_file": file.id}


async def packed_document(gateway: Gateway, bench: Bench, store: str, document: str, **kept: Any) -> dict[str, Any]:
    pack = await call(gateway, "POST", f"/v1/vector_stores/{store}/pack", {"document": document, **kept})
    await until(lambda: all(record.is_ready for record in bench.shelf.everybodys()))
    return await call(gateway, "GET", f"/v1/packs/{pack['id']}")


async def shown_text(gateway: Gateway, pack: str) -> str:
    """What anybody can read of a pack; nothing once it is gone."""
    response = await gateway.http().get(f"/v1/packs/{pack}/messages")
    assert response.status_code in (200, 404), response.text
    return response.text if response.status_code == 200 else ""


def uses(bench: Bench) -> list[PackUse]:
    """What the packs that there are are of, oldest first."""
    packs = sorted(bench.shelf.everybodys(), key=lambda record: record.created_at)
    return [use for record in packs for use in uses_of({"metadata": record.options.metadata})]
