"""The life of packs: built, found, evicted, refused, rebuilt, adopted, deleted. Files and decisions are real."""

from __future__ import annotations

import asyncio
import resource
import threading
from pathlib import Path

import msgspec
import pytest
import torch

from readahead_serving.engine.kv.pack_manifest import BLOCKS, MANIFEST, TOKENS
from readahead_serving.engine.kv.pack_store import PackStore
from readahead_serving.engine.kv.pack_table import MIN_PART
from readahead_serving.engine.request import PackMiss
from readahead_serving.errors import PackNotFound, PackTooLarge, RequestRefused
from readahead_serving.packs.record import MAX_METADATA, PackOptions, PackRecord, PackState
from readahead_serving.packs.source import PackDocument, PackMessage, PackSource
from tests.serving.generation import until
from tests.serving.packs import Bench, ByteEncoder, files, kv_of, question, shelf_at, source

TEXT = "The pump weighs 41 kilograms. " * 10


def folder_of(bench: Bench, record: PackRecord) -> Path:
    return bench.root / record.pack_id / record.version


async def test_a_pack_is_computed_once_kept_on_disk_and_found_by_a_prompt_that_begins_with_it(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        record = await bench.built(TEXT, name="manual")
        assert (record.state, record.on_disk, record.disk_problem) == (PackState.RESIDENT, True, "")
        assert record.tokens_computed == record.num_tokens == record.tokens_done
        assert await bench.shelf.prepare("", question(record)) is record
        assert bench.shelf.counts.hits == record.hits == 1
        salt, kv = bench.engine.core.attached[record.pack_id]
        assert record.tokens is not None
        expected = kv_of(record.tokens.token_ids)
        assert (salt, kv.token_ids) == ("", expected.token_ids)
        assert all(
            torch.equal(a, b) for a, b in zip([*kv.keys, *kv.values], [*expected.keys, *expected.values], strict=True)
        )


async def test_the_same_texts_are_the_same_pack_and_other_texts_another(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        first, again, other = await bench.built("a"), await bench.built("a", name="new"), await bench.built("b")
        assert first is again
        assert first.options.name == "new"
        assert other.pack_id != first.pack_id


async def test_a_pack_asked_for_under_other_metadata_keeps_what_was_promised_before(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        first = await bench.built("a", pin=True, ttl_s=60.0, metadata={"one": "1"})
        assert await bench.built("a", ttl_s=30.0, metadata={"two": "2"}) is first
        joined = PackOptions(pin=True, ttl_s=60.0, metadata={"one": "1", "two": "2"})
        assert (first.options, first.pinned) == (joined, True)
        await bench.built("a", metadata={"one": "3", "two": "2"})
        assert first.options == PackOptions(metadata={"one": "3", "two": "2"}), "the last word of those who have it"
        for number in range(MAX_METADATA - 2):
            await bench.built("a", metadata={f"more {number}": ""})
        assert first.options.ttl_s is None, "kept for good for one, it is for all"
        with pytest.raises(RequestRefused, match="16 of 16"):
            await bench.built("a", metadata={"one too many": ""})
    async with shelf_at(tmp_path) as bench:
        [record] = bench.shelf.list_all("")
        assert len(record.options.metadata) == MAX_METADATA


async def test_two_tenants_with_the_same_text_share_nothing(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        mine = await bench.built(TEXT, salt="acme")
        prompt = question(mine)
        assert await bench.shelf.prepare("globex", prompt) is None
        with pytest.raises(PackNotFound):
            bench.shelf.get("globex", mine.pack_id)
        with pytest.raises(PackNotFound):
            await bench.shelf.delete("globex", mine.pack_id)
        theirs = await bench.built(TEXT, salt="globex")
        assert theirs.pack_id != mine.pack_id
        assert theirs.tokens_computed == theirs.num_tokens, "it must not read the other tenant's KV"
        assert await bench.shelf.prepare("acme", prompt) is mine
        assert await bench.shelf.prepare("globex", prompt) is theirs
        assert bench.shelf.list_all("acme") == [mine]


async def test_packs_on_disk_are_adopted_after_a_restart(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        record = await bench.built(TEXT, name="manual", metadata={"kb": "1"})
        prompt = question(record)
    async with shelf_at(tmp_path) as bench:
        adopted = bench.shelf.get("", record.pack_id)
        assert (adopted.state, adopted.options.metadata) == (PackState.ON_DISK, {"kb": "1"})
        assert await bench.shelf.prepare("", prompt) is adopted
        assert adopted.state is PackState.RESIDENT
        assert not bench.engine.core.built, "nothing may be computed again"
        assert bench.engine.core.attached[record.pack_id][1].token_ids == prompt[: record.num_tokens]


@pytest.mark.parametrize("name", [BLOCKS, TOKENS, MANIFEST])
async def test_a_flipped_byte_is_refused_by_name_and_the_pack_built_again(tmp_path: Path, name: str) -> None:
    async with shelf_at(tmp_path) as bench:
        record = await bench.built(TEXT)
        prompt, path = question(record), folder_of(bench, record) / name
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    async with shelf_at(tmp_path) as bench:
        record = bench.shelf.get("", record.pack_id)
        missed = await bench.shelf.prepare("", prompt)
        assert record.reason.startswith("damaged"), record.reason
        if name == BLOCKS:
            assert isinstance(missed, PackMiss)
            assert missed.reason == "damaged"
        else:
            assert missed is None, "without its tokens nobody knows which prompts are meant for it"
        await bench.ready(record)
        assert (record.state, record.on_disk) == (PackState.RESIDENT, True)
        assert await bench.shelf.prepare("", prompt) is record
        assert bench.engine.core.attached[record.pack_id][1].token_ids == prompt[: record.num_tokens]


async def test_a_torn_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        record = await bench.built(TEXT)
        path = folder_of(bench, record) / BLOCKS
    path.write_bytes(path.read_bytes()[:-1])
    async with shelf_at(tmp_path) as bench:
        adopted = bench.shelf.get("", record.pack_id)
        assert adopted.reason.startswith("damaged: kv.bin has ")
        assert (await bench.ready(adopted)).state is PackState.RESIDENT


@pytest.mark.parametrize("part", ["model", "tokenizer", "template", "rope", "dtype", "weights", "layout"])
async def test_kv_of_another_model_is_refused_by_name_and_built_again_from_its_text(tmp_path: Path, part: str) -> None:
    async with shelf_at(tmp_path) as bench:
        record = await bench.built(TEXT)

    other = "float16" if part == "dtype" else "other"
    async with shelf_at(tmp_path, identity=lambda one: msgspec.structs.replace(one, **{part: other})) as bench:
        adopted = bench.shelf.get("", record.pack_id)
        assert adopted.reason.startswith(f"other_{part}: ")
        if part != "dtype":  # the stand-in computes one dtype only
            await bench.ready(adopted)
            assert adopted.tokens_computed == adopted.num_tokens
            assert adopted.version != record.version
            assert not folder_of(bench, record).exists()


@pytest.mark.parametrize("first", [True, False], ids=["from bytes", "to bytes"])
async def test_packs_that_are_held_otherwise_are_built_again_and_told_at_their_size(
    tmp_path: Path, first: bool
) -> None:
    sizes = {}
    async with shelf_at(tmp_path, in_bytes=first) as bench:
        record = await bench.built(TEXT)
        sizes[first] = record.nbytes
        assert record.nbytes == (await bench.shelf.estimate(source(TEXT))).nbytes
    async with shelf_at(tmp_path, in_bytes=not first) as bench:
        adopted = bench.shelf.get("", record.pack_id)
        assert adopted.reason.startswith("other_layout: ")
        await bench.ready(adopted)
        sizes[not first] = adopted.nbytes
        kv = bench.engine.core.attached[record.pack_id][1]
        assert (kv.is_bytes, kv.nbytes) == (not first, adopted.nbytes)
    assert sizes[True] < 0.4 * sizes[False], "a byte and scales for each float32"
    async with shelf_at(tmp_path, in_bytes=not first) as bench:
        adopted = bench.shelf.get("", record.pack_id)
        assert (adopted.state, adopted.nbytes) == (PackState.ON_DISK, sizes[not first])


async def test_a_full_disk_leaves_the_pack_in_memory_and_says_so(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 10, before[1]))  # the system's own "no more" for files
        try:
            record = await bench.built(TEXT)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert (record.state, record.on_disk) == (PackState.RESIDENT, False)
        assert record.disk_problem.startswith("disk_full: ")
        assert await bench.shelf.prepare("", question(record)) is record
        assert not files(tmp_path, "*.partial"), "nothing half written stays"
        assert not folder_of(bench, record).exists()


async def test_the_disks_cap_drops_what_was_used_longest_ago(tmp_path: Path) -> None:
    async with shelf_at(tmp_path, memory_tokens=500, disk_bytes=160_000) as bench:
        first, second = await bench.built("a" * 400), await bench.built("b" * 400)
        third = await bench.built("c" * 400)
        assert bench.shelf.disk_bytes <= 160_000
        assert (first.state, second.on_disk, third.on_disk) == (PackState.STALE, True, True)
        assert first.reason.startswith("evicted: ")
        huge = await bench.built("d" * 3000)
        assert huge.disk_problem.startswith("disk_cap: ")


async def test_a_pack_that_was_evicted_is_built_again_when_it_is_asked_for(tmp_path: Path) -> None:
    async with shelf_at(tmp_path, memory_tokens=500, disk_bytes=160_000) as bench:
        first, *_ = [await bench.built(letter * 400) for letter in "abc"]
        assert first.state is PackState.STALE
        missed = await bench.shelf.prepare("", question(first))
        assert missed == PackMiss(reason="building", pack_id=first.pack_id, shared_tokens=first.num_tokens)
        await bench.ready(first)
        assert await bench.shelf.prepare("", question(first)) is first


async def test_pins_over_the_share_are_told_with_numbers_and_hold_within_it(tmp_path: Path) -> None:
    async with shelf_at(tmp_path, memory_tokens=1000, pin_share=0.5) as bench:
        kept = await bench.built("a" * 400, pin=True)
        over = await bench.built("b" * 400, pin=True)
        assert (kept.pinned, over.pinned) == (True, False)
        assert over.pin_problem.startswith("pin_share: it needs ")
        for number in range(8):
            await bench.built(f"{number}" * 400)
        assert kept.state is PackState.RESIDENT
        await bench.shelf.update("", kept.pack_id, PackOptions(pin=False))
        assert not kept.pinned
        await bench.shelf.update("", over.pack_id, PackOptions(pin=True))
        assert (over.pinned, over.pin_problem) == (True, "")


async def test_a_circle_of_twenty_packs_leaves_six_of_eight_in_memory(tmp_path: Path) -> None:
    async with shelf_at(tmp_path, memory_tokens=8 * 108) as bench:
        records = [await bench.built(f"{number:02}" * 50) for number in range(20)]
        assert {record.num_tokens for record in records} == {108}
        hot = 0
        for _ in range(3):
            hot = 0
            for record in records:
                hot += record.state is PackState.RESIDENT
                assert await bench.shelf.prepare("", question(record)) is record
        assert hot >= 6


async def test_time_to_live_begins_anew_with_each_question(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        used, unused = await bench.built("a", ttl_s=3600.0), await bench.built("b", ttl_s=3600.0)
        for record in (used, unused):
            record.used_at -= 3599.5
        soon = used.expires_at
        await bench.shelf.prepare("", question(used))
        assert used.expires_at is not None
        assert soon is not None
        assert used.expires_at > soon + 3000
        await until(lambda: not (bench.root / unused.pack_id).exists(), "the unused pack is deleted")
        with pytest.raises(PackNotFound):
            bench.shelf.get("", unused.pack_id)
        assert unused.pack_id not in bench.engine.core.attached
        assert bench.shelf.get("", used.pack_id) is used


async def test_deleting_reaches_memory_and_disk(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        record = await bench.built(TEXT)
        await bench.shelf.delete("", record.pack_id)
        assert record.pack_id not in bench.engine.core.attached
        assert files(tmp_path) == []
        assert bench.shelf.memory_bytes == bench.shelf.disk_bytes == 0
    async with shelf_at(tmp_path) as bench:
        assert bench.shelf.list_all("") == []


async def test_a_pack_deleted_while_it_is_written_down_is_not_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shelf_at(tmp_path) as bench:
        deleted = threading.Event()
        save = PackStore.save_source

        def save_late(store: PackStore, pack_id: str, data: bytes) -> None:
            assert deleted.wait(60)
            save(store, pack_id, data)

        monkeypatch.setattr(PackStore, "save_source", save_late)
        creating = asyncio.create_task(bench.shelf.create("", source("a secret"), PackOptions()))
        await until(lambda: len(bench.shelf.everybodys()) == 1, "the pack is known")
        await bench.shelf.delete("", bench.shelf.everybodys()[0].pack_id)
        deleted.set()
        await creating
        assert files(tmp_path) == []


async def test_deleting_ends_a_build(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        bench.engine.core.hold = True
        record = await bench.shelf.create("", source(TEXT), PackOptions())
        await until(lambda: record.tokens_done == 1, "progress is told")
        await bench.shelf.delete("", record.pack_id)
        assert bench.engine.core.held == []
        assert files(tmp_path) == []
        bench.engine.core.hold = False
        assert (await bench.built("another")).state is PackState.RESIDENT


async def test_a_document_at_the_end_costs_its_own_tokens_only(tmp_path: Path) -> None:
    documents = tuple(PackDocument(f"d{number}", f"text {number} " * 20) for number in range(3))
    async with shelf_at(tmp_path) as bench:
        system = (PackMessage("system", "Be brief."),)
        old = await bench.ready(
            await bench.shelf.create("", PackSource(messages=system, documents=documents[:2]), PackOptions(name="kb"))
        )
        new = await bench.ready(await bench.shelf.extend("", old.pack_id, documents[2:]))
        await until(lambda: len(bench.shelf.list_all("")) == 1, "the old pack has gone")
        assert new.tokens_computed is not None
        assert new.tokens_computed <= new.num_tokens - old.num_tokens + 2
        assert (new.extends, new.options.name) == (old.pack_id, "kb")
        whole = PackSource(messages=system, documents=documents)
        assert new.pack_id == whole.pack_id("")
        assert new.tokens is not None
        assert bench.engine.core.attached.keys() == {new.pack_id}
        assert bench.engine.core.attached[new.pack_id][1].token_ids == new.tokens.token_ids
        spans = [(span.title, span.first_token, span.end_token) for span in new.tokens.documents]
        text = bytes(token for token in new.tokens.token_ids if token < 256).decode()
        assert [text[start:end] for _, start, end in spans] == [document.text.strip() for document in documents]


async def test_when_the_engine_dies_packs_come_back_and_unfinished_ones_are_built(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        kept = await bench.built(TEXT)
        bench.engine.core.hold = True
        unfinished = await bench.shelf.create("", source("unfinished"), PackOptions())
        await until(lambda: unfinished.tokens_done == 1, "it is under way")
        await bench.engine.die()
        assert kept.state is PackState.ON_DISK
        bench.engine = type(bench.engine)(bench.shelf)
        assert (await bench.ready(unfinished)).state is PackState.RESIDENT
        assert await bench.shelf.prepare("", question(kept)) is kept


async def test_many_questions_on_a_pack_on_disk_load_it_once(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        record = await bench.built(TEXT)
    async with shelf_at(tmp_path) as bench:
        found = await asyncio.gather(*(bench.shelf.prepare("", question(record, f"{n}?")) for n in range(8)))
        assert {one.pack_id for one in found if one is not None} == {record.pack_id}
        assert bench.shelf.counts.hits == 8


async def test_a_miss_has_a_reason(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        record = await bench.built(TEXT)
        near = ByteEncoder().encode_chat([{"role": "system", "content": TEXT[:-40] + "!"}])
        shared = len("system:") + len(TEXT) - 40
        diverged = PackMiss(reason="diverged", pack_id=record.pack_id, shared_tokens=shared)
        assert await bench.shelf.prepare("", near) == diverged
        assert await bench.shelf.prepare("", [1, 2, 3]) is None, "meant for no pack"
        bench.engine.core.hold = True
        building = await bench.shelf.create("", source("slow"), PackOptions())
        missed = await bench.shelf.prepare("", question(building))
        assert missed == PackMiss(reason="building", pack_id=building.pack_id, shared_tokens=building.num_tokens)
        assert bench.shelf.counts.misses == {"diverged": 1, "no_match": 1, "building": 1}


async def test_a_pack_on_disk_is_loaded_for_a_prompt_that_shares_much_of_it(tmp_path: Path) -> None:
    long = "a page of text " * 30
    async with shelf_at(tmp_path) as bench:
        await bench.built(long)
    async with shelf_at(tmp_path) as bench:
        [record] = bench.shelf.list_all("")
        little, much = (f"{long[:count]}, changed" for count in (MIN_PART // 2, MIN_PART))
        for text, state in ((little, PackState.ON_DISK), (much, PackState.RESIDENT)):
            missed = await bench.shelf.prepare("", ByteEncoder().encode_chat([{"role": "system", "content": text}]))
            assert isinstance(missed, PackMiss)
            assert (missed.reason, record.state) == ("diverged", state)


async def test_a_pack_over_the_window_is_refused_with_the_numbers(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        with pytest.raises(PackTooLarge, match="4096"):
            await bench.shelf.create("", source("x" * 5000), PackOptions())
        with pytest.raises(PackTooLarge):
            await bench.shelf.estimate(source("x" * 5000))
        assert bench.shelf.list_all("") == []


async def test_a_prompt_misses_a_pack_with_its_reason_while_a_damaged_manifest_is_made_good(tmp_path: Path) -> None:
    async with shelf_at(tmp_path) as bench:
        record = await bench.built(TEXT)
        prompt, path = question(record), folder_of(bench, record) / MANIFEST
    path.write_bytes(path.read_bytes()[:-20])
    async with shelf_at(tmp_path) as bench:
        bench.engine.core.hold = True
        damaged = bench.shelf.get("", record.pack_id)
        assert damaged.reason.startswith("damaged"), damaged.reason
        await until(lambda: bool(bench.engine.core.held), "the pack is being built anew")
        missed = await bench.shelf.prepare("", prompt)
        assert isinstance(missed, PackMiss)
        assert (missed.reason, missed.pack_id) == ("building", record.pack_id)
        assert missed.shared_tokens == damaged.num_tokens
        assert bench.shelf.counts.misses["building"] == 1
