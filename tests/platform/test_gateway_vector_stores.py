"""Vector stores, their files, batches and searches, as the official SDK uses them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.platform.gateway import Gateway, add_document
from tests.retrieval import pdf_samples as samples


def extra(thing: openai.BaseModel) -> dict[str, Any]:
    return thing.model_extra or {}


def rooms(folder: Path, count: int) -> list[Path]:
    return [
        samples.write_pdf(folder / f"room {n}.pdf", samples.lines(f"Room {n} belongs to department {n * 7}."))
        for n in range(count)
    ]


async def test_stores_of_one_name_are_told_apart_and_the_name_means_the_oldest(gateway: Gateway, manual: Path) -> None:
    ids = await add_document(gateway, "manuals", manual)
    sdk = gateway.sdk()
    second = await sdk.vector_stores.create(name="manuals")
    assert second.id != ids["store"]
    assert (await sdk.vector_stores.retrieve("manuals")).id == ids["store"]
    first = await sdk.vector_stores.retrieve(ids["store"])
    assert (extra(first)["model"], extra(second)["model"]) == ("kb/manuals", f"kb/{second.id}")
    await sdk.vector_stores.delete(ids["store"])
    assert (await sdk.vector_stores.retrieve("manuals")).id == second.id
    assert extra(await sdk.vector_stores.retrieve(second.id))["model"] == "kb/manuals"


async def test_what_is_set_on_a_store_is_kept_and_changed_by_what_is_sent_only(gateway: Gateway) -> None:
    sdk = gateway.sdk()
    made = await sdk.vector_stores.create(
        name="manuals", metadata={"owner": "yard"}, expires_after={"anchor": "last_active_at", "days": 7}
    )
    assert made.metadata == {"owner": "yard"}
    assert made.expires_after is not None
    assert made.last_active_at is not None
    assert made.expires_at == made.last_active_at + 7 * 86_400
    renamed = await sdk.vector_stores.update(made.id, name="handbooks")
    assert (renamed.name, renamed.metadata, renamed.status) == ("handbooks", {"owner": "yard"}, "completed")
    assert renamed.expires_after == made.expires_after
    endless = await sdk.vector_stores.update(made.id, expires_after=None, metadata=None)
    assert (endless.name, endless.metadata, endless.expires_at) == ("handbooks", {}, None)
    assert await sdk.vector_stores.retrieve(made.id) == endless


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"metadata": {"k": "v" * 513}}, "metadata"),
        ({"metadata": {f"k{n}": "v" for n in range(17)}}, "metadata"),
        ({"expires_after": {"anchor": "created_at", "days": 1}}, "expires_after"),
        ({"expires_after": {"anchor": "last_active_at", "days": 0}}, "expires_after"),
        ({"chunking_strategy": {"type": "static"}}, "chunking_strategy"),
        (
            {
                "chunking_strategy": {
                    "type": "static",
                    "static": {"max_chunk_size_tokens": 99, "chunk_overlap_tokens": 0},
                }
            },
            "chunking_strategy",
        ),
        (
            {
                "chunking_strategy": {
                    "type": "static",
                    "static": {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 101},
                }
            },
            "chunking_strategy",
        ),
    ],
)
async def test_what_is_out_of_bounds_is_refused_by_its_name(gateway: Gateway, body: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        await gateway.sdk().vector_stores.create(name="x", extra_body=body)
    assert raised.value.code == "invalid_value"
    assert str(raised.value.param).startswith(param)


async def test_an_expired_store_answers_no_more_until_its_expiry_is_set_anew(gateway: Gateway, manual: Path) -> None:
    ids = await add_document(gateway, "manuals", manual)
    sdk = gateway.sdk()
    await gateway.context.library.update_kb("acme", ids["store"], {"expires_after_days": -1})
    assert (await sdk.vector_stores.retrieve(ids["store"])).status == "expired"
    with pytest.raises(openai.BadRequestError) as raised:
        await sdk.vector_stores.search(ids["store"], query="oil")
    assert raised.value.code == "knowledge_base_expired"
    await sdk.vector_stores.update(ids["store"], expires_after={"anchor": "last_active_at", "days": 1})
    assert (await sdk.vector_stores.search(ids["store"], query="oil")).data


async def test_two_files_of_the_same_bytes_are_two_files_of_the_store(gateway: Gateway, manual: Path) -> None:
    ids = await add_document(gateway, "manuals", manual)
    sdk = gateway.sdk()
    copy = await sdk.files.create(file=("copy.pdf", manual.read_bytes()), purpose="assistants")  # noqa: ASYNC240
    added = await sdk.vector_stores.files.create_and_poll(copy.id, vector_store_id=ids["store"], poll_interval_ms=50)
    assert (added.id, added.status, extra(added)["document_id"]) == (copy.id, "completed", ids["document"])
    store = await sdk.vector_stores.retrieve(ids["store"])
    assert (store.file_counts.total, store.file_counts.completed, store.usage_bytes) == (2, 2, copy.bytes)
    await sdk.files.delete(ids["file"])
    found = await sdk.vector_stores.search(ids["store"], query="oil of the gearbox")
    assert {(item.file_id, item.filename) for item in found.data} == {(copy.id, "copy.pdf")}
    assert [file.id async for file in sdk.vector_stores.files.list(ids["store"])] == [copy.id]


async def test_attributes_are_kept_changed_and_filtered_by(gateway: Gateway, tmp_path: Path) -> None:
    sdk = gateway.sdk()
    store = await sdk.vector_stores.create(name="rooms")
    for year, path in enumerate(rooms(tmp_path, 3), start=2030):
        await sdk.vector_stores.files.upload_and_poll(
            vector_store_id=store.id,
            file=path,
            poll_interval_ms=50,
            attributes={"year": year, "site": "north" if year % 2 else "south", "open": year == 2030},
        )
    files = {extra(f)["document"]: f async for f in sdk.vector_stores.files.list(store.id)}
    assert files["room 1.pdf"].attributes == {"year": 2031.0, "site": "north", "open": False}

    async def found(filters: Any) -> set[str]:
        page = await sdk.vector_stores.search(store.id, query="room of which department", filters=filters)
        return {item.filename.removesuffix(".pdf") for item in page.data}

    def is_(kind: str, key: str, value: object) -> dict[str, object]:
        return {"type": kind, "key": key, "value": value}

    assert await found(is_("eq", "year", 2031)) == {"room 1"}
    assert await found(is_("ne", "site", "north")) == {"room 0", "room 2"}
    assert await found(is_("gt", "year", 2030)) == {"room 1", "room 2"}
    assert await found(is_("gte", "year", 2031)) == {"room 1", "room 2"}
    assert await found(is_("lt", "year", 2031)) == {"room 0"}
    assert await found(is_("lte", "site", "north")) == {"room 1"}
    assert await found(is_("in", "year", [2030, 2032])) == {"room 0", "room 2"}
    assert await found(is_("nin", "year", [2030, 2032])) == {"room 1"}
    assert await found(is_("eq", "open", True)) == {"room 0"}
    assert await found(is_("eq", "open", 1)) == set()  # a number is no truth value
    assert await found(is_("eq", "floor", 1)) == set()
    either = {"type": "or", "filters": [is_("eq", "open", True), is_("eq", "year", 2032)]}
    assert await found(either) == {"room 0", "room 2"}
    assert await found({"type": "and", "filters": [either, is_("eq", "site", "south")]}) == {"room 0", "room 2"}
    assert await found({"type": "and", "filters": [either, is_("eq", "site", "north")]}) == set()

    changed = await sdk.vector_stores.files.update(
        files["room 1.pdf"].id, vector_store_id=store.id, attributes={"site": "east"}
    )
    assert changed.attributes == {"site": "east"}
    assert await found(is_("eq", "site", "east")) == {"room 1"}


def nested(depth: int) -> dict[str, Any]:
    filters: dict[str, Any] = {"type": "eq", "key": "a", "value": 1}
    for _ in range(depth):
        filters = {"type": "and", "filters": [filters]}
    return filters


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({"type": "near", "key": "a", "value": 1}, "'eq', 'ne'"),
        ({"type": "eq", "key": "a"}, "Field required"),
        ({"type": "in", "key": "a", "value": 1}, "in compares with a list"),
        ({"type": "eq", "key": "a", "value": [1]}, "eq compares with one value"),
        ({"type": "and", "filters": []}, "at least 1 item"),
        ({"type": "gt", "key": "a", "value": True}, "gt needs a number or a text"),
        (nested(9), "filters are nested more than 8 deep"),
    ],
    ids=["kind", "no value", "no list", "a list", "none", "no order", "too deep"],
)
async def test_a_filter_that_cannot_be_followed_is_refused(gateway: Gateway, filters: Any, told: str) -> None:
    store = await gateway.sdk().vector_stores.create(name="x")
    with pytest.raises(openai.BadRequestError, match=told) as raised:
        await gateway.sdk().vector_stores.search(store.id, query="oil", filters=filters)
    assert str(raised.value.param).startswith("filters")


async def test_a_batch_is_uploaded_polled_listed_and_counted(gateway: Gateway, tmp_path: Path) -> None:
    sdk = gateway.sdk()
    store = await sdk.vector_stores.create(name="rooms")
    bad = tmp_path / "no.pdf"
    bad.write_text("no PDF")
    handles = [path.open("rb") for path in [*rooms(tmp_path, 4), bad]]
    async with asyncio.timeout(60):
        batch = await sdk.vector_stores.file_batches.upload_and_poll(store.id, files=handles, poll_interval_ms=50)
    for handle in handles:
        handle.close()
    assert (batch.status, batch.object) == ("completed", "vector_store.files_batch")
    assert (batch.file_counts.completed, batch.file_counts.failed, batch.file_counts.total) == (4, 1, 5)
    listing = sdk.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id, limit=2, order="asc")
    assert len([file.id async for file in listing]) == 5
    failed = sdk.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id, filter="failed")
    assert [extra(file)["error"]["code"] async for file in failed] == ["not_pdf"]
    assert await sdk.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id) == batch


async def test_each_file_of_a_batch_may_have_attributes_of_its_own(gateway: Gateway, tmp_path: Path) -> None:
    sdk = gateway.sdk()
    store = await sdk.vector_stores.create(name="rooms")
    ids = [(await sdk.files.create(file=path, purpose="assistants")).id for path in rooms(tmp_path, 2)]
    files: Any = [{"file_id": id_, "attributes": {"floor": n}} for n, id_ in enumerate(ids)]
    batch = await sdk.vector_stores.file_batches.create_and_poll(store.id, files=files, poll_interval_ms=50)
    listed = sdk.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id)
    assert {file.id: file.attributes async for file in listed} == {
        id_: {"floor": float(n)} for n, id_ in enumerate(ids)
    }
    with pytest.raises(openai.BadRequestError):
        await sdk.vector_stores.file_batches.create(store.id, file_ids=ids, files=files)
    with pytest.raises(openai.NotFoundError):
        await sdk.vector_stores.file_batches.create(store.id, file_ids=["file-none"])


async def test_a_cancelled_batch_stops_what_waits_and_keeps_what_is_there(gateway: Gateway, tmp_path: Path) -> None:
    sdk = gateway.sdk()
    store = await sdk.vector_stores.create(name="rooms")
    ids = [(await sdk.files.create(file=path, purpose="assistants")).id for path in rooms(tmp_path, 8)]
    batch = await sdk.vector_stores.file_batches.create(store.id, file_ids=ids)
    cancelled = await sdk.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
    async with asyncio.timeout(60):
        cancelled = await sdk.vector_stores.file_batches.poll(batch.id, vector_store_id=store.id, poll_interval_ms=50)
    assert cancelled.status == "cancelled"
    counts = cancelled.file_counts
    assert counts.cancelled >= 4  # two at a time are read
    assert counts.cancelled + counts.completed == counts.total == 8


async def test_what_was_read_of_a_file_is_given_page_by_page(gateway: Gateway, manual: Path) -> None:
    ids = await add_document(gateway, "manuals", manual)
    pages = [
        page async for page in gateway.sdk().vector_stores.files.content(ids["file"], vector_store_id=ids["store"])
    ]
    assert [(page.type, extra(page)["page"]) for page in pages] == [("text", 1), ("text", 2), ("text", 3)]
    assert "41 kilograms" in (pages[0].text or "")


async def test_a_threshold_compares_with_the_scores_that_are_shown(gateway: Gateway, manual: Path) -> None:
    ids = await add_document(gateway, "manuals", manual)
    sdk = gateway.sdk()
    query = ["oil of the gearbox", "mineral oil"]
    every = await sdk.vector_stores.search(ids["store"], query=query, rewrite_query=True)
    scores = sorted(item.score for item in every.data)
    assert len(scores) > 1
    assert all(0 <= score <= 1 for score in scores)
    some = await sdk.vector_stores.search(ids["store"], query=query, ranking_options={"score_threshold": scores[-1]})
    assert [item.score for item in some.data] == [scores[-1]]
    one = await sdk.vector_stores.search(ids["store"], query=query, max_num_results=1)
    assert len(one.data) == 1
    assert extra(one.data[0])["ranks"]


async def test_a_chunking_strategy_is_followed_and_shown(gateway: Gateway, manual: Path) -> None:
    sdk = gateway.sdk()
    store = await sdk.vector_stores.create(name="manuals")
    file = await sdk.files.create(file=manual, purpose="assistants")
    strategy: Any = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 20}}
    added = await sdk.vector_stores.files.create_and_poll(
        file.id,
        vector_store_id=store.id,
        chunking_strategy=strategy,
        poll_interval_ms=50,
    )
    assert added.chunking_strategy is not None
    assert added.chunking_strategy.to_dict() == strategy


async def test_lists_are_paged_in_both_directions(gateway: Gateway) -> None:
    sdk = gateway.sdk()
    made = [(await sdk.vector_stores.create(name=f"kb {n}")).id for n in range(5)]
    back = await sdk.vector_stores.list(order="asc", before=made[3], limit=2)
    assert ([store.id for store in back.data], back.has_more) == (made[1:3], True)
    first = await sdk.vector_stores.list(order="asc", before=made[1], limit=2)
    assert ([store.id for store in first.data], first.has_more) == (made[:1], False)
    with pytest.raises(openai.BadRequestError) as raised:
        await sdk.vector_stores.list(before="vs_unknown")
    assert raised.value.param == "before"
