"""Models on disk: found by name, fetched when missing, checked by hash before they count as there.

A model is a folder `<models_dir>/<name>/`. It is filled beside, verified, given a manifest, and renamed into place as
the last step, so that what stands there was whole. Opening checks the manifest and the sizes, which notices truncation
without reading gigabytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from filelock import FileLock

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.catalogue import CATALOGUE, CatalogueModel, ModelFile
from readahead_serving.model.hub import HUB_ID, HubSource
from readahead_serving.model.progress import DownloadProgress, ProgressCallback, folder_bytes
from readahead_serving.model.sources import ModelSource, PackageSource, file_sha256

MANIFEST = ".readahead.json"
_HUB_PREFIX = "hub--"


class StoredFile(msgspec.Struct, frozen=True):
    """One file as it was when it was verified."""

    nbytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """Written into a model's folder when all its files were there and right."""

    name: str
    entry: str
    files: dict[str, StoredFile]


@dataclass(frozen=True)
class StoredModel:
    """A model in the store."""

    name: str
    path: Path
    nbytes: int


class ModelStore:
    """The models of one directory.

    Args:
        models_dir: Created when the first model arrives.
        catalogue: The models known by name.
        index_arguments: For pip, such as `--index-url`; by default pip's own configuration holds.
        hub_endpoint: Another hub than what `HF_ENDPOINT` says, or huggingface.co.
    """

    def __init__(
        self,
        models_dir: Path,
        *,
        catalogue: Mapping[str, CatalogueModel] = CATALOGUE,
        index_arguments: Sequence[str] = (),
        hub_endpoint: str | None = None,
    ) -> None:
        self._dir = models_dir.expanduser()
        self._catalogue = catalogue
        self._index_arguments = index_arguments
        self._hub_endpoint = hub_endpoint

    def resolve(self, name_or_path: str) -> Path:
        """Finds a model on disk, without any network.

        Args:
            name_or_path: A catalogue name, a path or a hub id, looked up in this order.

        Returns:
            A GGUF file or a folder.

        Raises:
            ModelLoadError: It is not there, not whole, or no such name is known.
        """
        if path := self._local_path(name_or_path):
            return _local_model(path)
        self._require_known(name_or_path)
        found = self._installed(name_or_path)
        if found is None:
            raise ModelLoadError(
                f"The model {name_or_path!r} is not in {self._dir} or not whole: run `readahead models pull "
                f"{name_or_path}`."
            )
        return found

    def ensure(self, name: str, progress: ProgressCallback | None = None) -> Path:
        """Finds a model, and fetches it first when it is not there or not whole. Blocks; safe across processes.

        Args:
            name: As for `resolve`.
            progress: Called from time to time, perhaps from another thread.

        Raises:
            ModelLoadError: It can be had from nowhere, or what arrived was not what was pinned.
        """
        if path := self._local_path(name):
            return _local_model(path)
        self._require_known(name)
        return self._installed(name) or self._install(name, progress or _ignore)

    def list(self) -> list[StoredModel]:
        """The whole models in the store, by name."""
        manifests = [_read_manifest(path.parent) for path in sorted(self._dir.glob(f"*/{MANIFEST}"))]
        return [
            StoredModel(one.name, path, sum(file.nbytes for file in one.files.values()))
            for one in manifests
            if one is not None and (path := self._installed(one.name)) is not None
        ]

    def remove(self, name: str) -> None:
        """Deletes a model from the store.

        Raises:
            ModelLoadError: It is not there.
        """
        self._require_known(name)
        with self._lock(name):
            if not self._folder(name).is_dir():
                raise ModelLoadError(f"The model {name!r} is not in {self._dir}.")
            self._discard(self._folder(name))

    def _local_path(self, name: str) -> Path | None:
        path = Path(name).expanduser()
        return path if name and name not in self._catalogue and path.exists() else None

    def _require_known(self, name: str) -> None:
        if name not in self._catalogue and not HUB_ID.fullmatch(name):
            known = ", ".join(self._catalogue)
            raise ModelLoadError(
                f"No model {name!r}: give a path that exists, a hub id (organisation/name) or one of {known}."
            )

    def _folder(self, name: str) -> Path:
        return self._dir / (name if name in self._catalogue else _HUB_PREFIX + name.replace("/", "--"))

    def _installed(self, name: str) -> Path | None:
        """The model's path when its manifest and sizes are right, and are those the catalogue pins."""
        folder = self._folder(name)
        manifest = _read_manifest(folder)
        if manifest is None or manifest.name != name or not _sizes_match(folder, manifest):
            return None
        pinned = self._catalogue.get(name)
        if pinned is not None and manifest != _pinned_manifest(pinned):
            return None
        return folder / manifest.entry

    def _install(self, name: str, progress: ProgressCallback) -> Path:
        try:
            self._dir.mkdir(parents=True, exist_ok=True)
            with self._lock(name):
                # another process may have fetched it while this one waited
                return self._installed(name) or self._fetch(name, progress)
        except OSError as error:
            raise ModelLoadError(f"Cannot store {name!r} in {self._dir}: {error.strerror or error}.") from error

    def _fetch(self, name: str, progress: ProgressCallback) -> Path:
        source, beside, folder = (
            self._source(name),
            self._dir / f".incoming-{name.replace('/', '--')}",
            self._folder(name),
        )
        self._discard(beside)
        beside.mkdir()

        def report(size: int) -> None:
            # pip may hold two copies for a moment
            total = source.total_bytes()
            progress(DownloadProgress(name, "downloading", min(size, total or size), total))

        try:
            report(0)
            source.fetch(beside, report)
            total = folder_bytes(beside)
            progress(DownloadProgress(name, "checking", total, total))
            manifest = self._verify(name, beside)
            (beside / MANIFEST).write_bytes(msgspec.json.encode(manifest))
            self._discard(folder)
            beside.rename(folder)
        finally:
            self._discard(beside)
        progress(DownloadProgress(name, "done", total, total))
        return folder / manifest.entry

    def _source(self, name: str) -> ModelSource:
        if pinned := self._catalogue.get(name):
            return PackageSource(pinned.package, pinned.files, self._index_arguments)
        return HubSource(name, self._hub_endpoint)

    def _verify(self, name: str, folder: Path) -> Manifest:
        if pinned := self._catalogue.get(name):
            for file in pinned.files:
                _check_file(folder / file.path, file)
            return _pinned_manifest(pinned)
        shutil.rmtree(folder / ".cache", ignore_errors=True)  # the hub client's own bookkeeping
        _local_model(folder)
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {str(path.relative_to(folder)): StoredFile(path.stat().st_size, file_sha256(path)) for path in paths}
        return Manifest(name, "", files)

    def _lock(self, name: str) -> FileLock:
        return FileLock(self._dir / f".{name.replace('/', '--')}.lock")

    def _discard(self, folder: Path) -> None:
        if folder.is_dir():
            shutil.rmtree(folder)


def _ignore(_: DownloadProgress) -> None:
    return


def _local_model(path: Path) -> Path:
    if path.suffix == ".gguf" or (path / "config.json").is_file():
        return path
    raise ModelLoadError(f"{path} holds no model: a GGUF file or a folder with config.json and safetensors is wanted.")


def _read_manifest(folder: Path) -> Manifest | None:
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError):
        return None


def _sizes_match(folder: Path, manifest: Manifest) -> bool:
    try:
        return all((folder / path).stat().st_size == file.nbytes for path, file in manifest.files.items())
    except OSError:
        return False


def _pinned_manifest(model: CatalogueModel) -> Manifest:
    return Manifest(model.name, model.entry, {file.path: StoredFile(file.nbytes, file.sha256) for file in model.files})


def _check_file(path: Path, expected: ModelFile) -> None:
    if path.stat().st_size != expected.nbytes or file_sha256(path) != expected.sha256:
        raise ModelLoadError(
            f"{expected.path} is not the file that was pinned (its SHA-256 differs). Nothing was kept."
        )
