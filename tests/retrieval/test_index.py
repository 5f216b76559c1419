"""The index beneath a knowledge base, against ground truth: whole or laid over, flat or in lists, beside changes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.errors import IndexDamaged
from readahead_retrieval.index import part
from readahead_retrieval.index.generation import Entry, Generation, GenerationWriter
from readahead_retrieval.owners import owners_of

DIMENSION = 32
MODEL = "model-1"


def mixture(count: int, seed: int) -> Vectors:
    """Unit vectors around sixty centres, as the texts of a knowledge base lie around its subjects."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(60, DIMENSION))
    vectors = centres[random.integers(0, 60, count)] + 0.6 * random.normal(size=(count, DIMENSION))
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


def entry(chunk_id: int) -> Entry:
    return Entry(chunk_id, f"doc_{chunk_id % 7}", f"passage number{chunk_id} of shelf{chunk_id % 7}")


def published(
    folder: Path,
    held: dict[int, Vectors],
    *,
    base: Generation | None = None,
    removed: Sequence[int] = (),
) -> Generation:
    """A generation of `held`, or of the base with `held` and without `removed`."""
    writer = GenerationWriter(folder, "kb", MODEL, DIMENSION, base)
    writer.remove(removed)
    if held:
        writer.add([entry(i) for i in held], np.stack(list(held.values())))
    return Generation.open(folder, writer.publish())


def by_id(first: int, vectors: Vectors) -> dict[int, Vectors]:
    return dict(enumerate(vectors, start=first))


def nearest(held: dict[int, Vectors], vector: Vectors, limit: int) -> list[int]:
    ids, scores = list(held), np.stack(list(held.values())) @ vector
    return [ids[row] for row in np.argsort(-scores)[:limit]]


def found(generation: Generation, vector: Vectors, limit: int, only: Sequence[int] | None = None) -> list[int]:
    return [hit.chunk_id for hit in generation.dense.search(vector, limit, only)]


def recall(generation: Generation, held: dict[int, Vectors], queries: Vectors) -> float:
    """At 10."""
    hits = [len(set(found(generation, q, 10)) & set(nearest(held, q, 10))) for q in queries]
    return sum(hits) / (10 * len(queries))


def test_a_generation_laid_over_another_answers_as_one_made_whole(tmp_path: Path) -> None:
    """Three times over: additions, removals from either part, and ids that come late and are lower than others."""
    held = by_id(100, mixture(400, seed=2))
    generation = published(tmp_path / "g0", held)
    queries = mixture(20, seed=3)
    for step in range(1, 4):
        more = by_id(step * 1000 if step < 3 else 1, mixture(50, seed=10 + step))
        gone = list(held)[step::9]
        generation = published(tmp_path / f"g{step}", more, base=generation, removed=gone)
        held = {i: v for i, v in (held | more).items() if i not in gone}
        assert generation.dense.ids.tolist() == sorted(held)
        assert generation.lexical.count == len(held)
        for query in queries:
            assert found(generation, query, 10) == nearest(held, query, 10)
            some = list(held)[::5]
            assert found(generation, query, 10, some) == nearest({i: held[i] for i in some}, query, 10)
        assert not {hit.chunk_id for hit in generation.lexical.search("passage", 1000)} & set(gone)
        assert [hit.chunk_id for hit in generation.lexical.search(f"number{max(more)}", 1)] == [max(more)]
        asked = [max(held), min(held)]
        exact = [float(held[i] @ queries[0]) for i in asked]
        assert generation.dense.similarities(queries[0], asked) == pytest.approx(exact, abs=1e-6)


def test_what_did_not_change_is_shared_with_the_generation_before_and_stays_whole_without_it(tmp_path: Path) -> None:
    held = by_id(1, mixture(300, seed=2))
    first = published(tmp_path / "g0", held)
    second = published(tmp_path / "g1", by_id(900, mixture(3, seed=4)), base=first, removed=[5])
    assert (tmp_path / "g1" / "dense.faiss").samefile(tmp_path / "g0" / "dense.faiss")
    assert first.dense.count == 300  # whoever holds the older one still finds what was removed since
    assert 5 in found(first, held[5], 1)
    for path in (tmp_path / "g0").rglob("*"):
        if path.is_file():
            path.unlink()
    assert found(second, held[7], 1) == [7]
    assert 5 not in found(second, held[5], 10)


def test_little_is_laid_over_and_much_is_made_whole(tmp_path: Path) -> None:
    generation = published(tmp_path / "g0", by_id(1, mixture(100, seed=2)))
    assert generation.extends_to("kb", MODEL, added=50, removed=5)
    assert not generation.extends_to("kb", MODEL, added=5_000, removed=0)
    assert not generation.extends_to("kb", MODEL, added=0, removed=5_000)
    assert not generation.extends_to("kb", "model-2", added=1, removed=0)  # its vectors would mean something else


@pytest.fixture
def small_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inverted lists, and filters through them, with few vectors."""
    monkeypatch.setattr(part, "FLAT_LIMIT", 500)
    monkeypatch.setattr(part, "EXACT_ROWS", 50)


@pytest.mark.usefixtures("small_lists")
def test_many_vectors_are_kept_in_lists_of_bytes_and_found_nearly_as_well(tmp_path: Path) -> None:
    held, queries = by_id(10, mixture(6000, seed=2)), mixture(50, seed=3)
    generation = published(tmp_path / "g0", held)
    assert (tmp_path / "g0" / "dense.faiss").stat().st_size < 6000 * DIMENSION * 2  # of four bytes a number
    assert recall(generation, held, queries) >= 0.95
    gone = list(held)[::3]
    generation = published(tmp_path / "g1", by_id(90_000, mixture(20, seed=5)), base=generation, removed=gone)
    held = {i: v for i, v in held.items() if i not in set(gone)} | by_id(90_000, mixture(20, seed=5))
    assert recall(generation, held, queries) >= 0.95
    assert not set(gone) & set(found(generation, queries[0], 5000))
    for some in (list(held)[:40], list(held)[::10]):  # one by one, and through the lists
        best = nearest({i: held[i] for i in some}, queries[1], 5)
        got = found(generation, queries[1], 5, some)
        assert set(got) <= set(some)
        assert len(set(got) & set(best)) >= 4


@pytest.mark.parametrize("change", ["flip", "cut", "remove"])
def test_a_file_that_changes_under_an_open_generation_is_noticed(tmp_path: Path, change: str) -> None:
    held = by_id(1, mixture(50, seed=2))
    for number in range(len(published(tmp_path / "count", held).manifest.files)):
        generation = published(tmp_path / f"g{number}", held)
        assert generation.untouched()
        name = sorted(generation.manifest.files, key=lambda name: name.rpartition(".")[2])[number]
        DAMAGE[change](generation.folder / name)
        assert not generation.untouched()


def test_a_damaged_generation_is_refused_whatever_file_it_is(tmp_path: Path) -> None:
    base = published(tmp_path / "g0", by_id(1, mixture(50, seed=2)))
    writer = GenerationWriter(tmp_path / "g1", "kb", MODEL, DIMENSION, base)
    writer.remove([3])
    writer.add([entry(99)], mixture(1, seed=4))
    sha256 = writer.publish()
    names = set(Generation.open(tmp_path / "g1", sha256).manifest.files)
    assert {"dense.faiss", "dense.ids", "delta.faiss", "delta.ids", "removed.ids", "lexical/meta.json"} <= names
    for name in names:
        path = tmp_path / "g1" / name
        sound = path.read_bytes()
        for damaged in (sound[:-1], bytes([sound[0] ^ 1]) + sound[1:], b""):
            path.unlink()
            path.write_bytes(damaged)
            with pytest.raises(IndexDamaged):
                Generation.open(tmp_path / "g1", sha256)
        path.write_bytes(sound)
    Generation.open(tmp_path / "g1", sha256)


def _flip(path: Path) -> None:
    data = path.read_bytes()
    with path.open("r+b") as file:  # in place, as a failing disk does it
        file.write(bytes([data[0] ^ 1]))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "flip": _flip,
    "cut": lambda path: os.truncate(path, 1),
    "remove": Path.unlink,
}


def test_searches_beside_additions_and_removals_see_one_generation_whole(tmp_path: Path) -> None:
    """Four threads search what one changes twenty times; each answer is the truth of the generation it was asked of."""
    truth: dict[str, dict[int, Vectors]] = {}
    queries = mixture(8, seed=3)
    held = by_id(1, mixture(300, seed=2))
    current = published(tmp_path / "g0", held)
    truth["g0"] = held
    done = threading.Event()
    seen: set[str] = set()

    def search(number: int) -> int:
        asked = 0
        while not done.is_set() or asked < 50:
            generation, query = current, queries[asked % len(queries)]
            name = generation.manifest.name
            assert found(generation, query, 5) == nearest(truth[name], query, 5)
            (hit,) = generation.lexical.search(f"number{min(truth[name])}", 1)
            assert hit.chunk_id == min(truth[name])
            seen.add(name)
            asked += 1
        return asked

    with ThreadPoolExecutor(4) as pool:
        searches = [pool.submit(search, number) for number in range(4)]
        try:
            for step in range(1, 21):
                more = by_id(1000 * step, mixture(10, seed=step + 50))
                gone = list(held)[:: max(len(held) // 8, 1)]
                held = {i: v for i, v in (held | more).items() if i not in gone}
                truth[f"g{step}"] = held
                current = published(tmp_path / f"g{step}", more, base=current, removed=gone)
        finally:
            done.set()
        assert all(asked.result() >= 50 for asked in searches)
    assert len(seen) > 3


def test_an_index_knows_whose_each_of_its_passages_is_through_layers(tmp_path: Path) -> None:
    first = published(tmp_path / "g0", by_id(1, mixture(30, seed=2)))
    second = published(tmp_path / "g1", by_id(900, mixture(3, seed=4)), base=first, removed=[5, 6])
    third = published(tmp_path / "g2", by_id(100, mixture(3, seed=5)), base=second, removed=[901, 7])
    held = [*range(1, 5), *range(8, 31), 100, 101, 102, 900, 902]
    assert third.owners().equals(owners_of((i, entry(i).document_id) for i in held))
    given_again = owners_of((i, "doc_newer" if i == 30 else entry(i).document_id) for i in held)
    assert given_again.contradicts(third.owners())
    assert not owners_of((i, entry(i).document_id) for i in held[10:]).contradicts(third.owners())
