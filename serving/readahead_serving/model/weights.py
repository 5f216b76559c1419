"""Where a model's weights come from: tensors by name, read one at a time so that memory holds few copies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open

from readahead_serving.errors import ModelLoadError
from readahead_serving.kernels.blocks import Blocks
from readahead_serving.model.json_file import read_json
from readahead_serving.model.pickles import refuse_pickles

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


class WeightSource(Protocol):
    """Tensors by name.

    `read` of a name in `names()` gives the whole tensor, in any floating dtype. `blocks` gives a matrix as numbers of
    few bits, whose values are those that `read` gives, or None where it is not stored so; any name may be asked for.
    """

    def names(self) -> frozenset[str]: ...

    def read(self, name: str) -> torch.Tensor: ...

    def blocks(self, name: str) -> Blocks | None: ...


class SafetensorsFolder:
    """The safetensors files of one folder, single or sharded by an index.

    Raises:
        ModelLoadError: A file is missing or truncated.
    """

    def __init__(self, folder: Path) -> None:
        refuse_pickles(str(folder), (path.name for path in folder.iterdir()))
        self._shards: dict[str, Any] = {}
        for shard, names in _shard_names(folder).items():
            opened = _open_shard(folder / shard)
            missing = names - set(opened.keys())
            if missing:
                raise ModelLoadError(f"{folder / shard} lacks the tensor {min(missing)}: download the model again.")
            self._shards.update(dict.fromkeys(names or opened.keys(), opened))

    def names(self) -> frozenset[str]:
        return frozenset(self._shards)

    def read(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = self._shards[name].get_tensor(name)
        return tensor

    def blocks(self, name: str) -> Blocks | None:
        return None


def _open_shard(path: Path) -> Any:  # the library has no types
    try:
        return safe_open(path, framework="pt")
    except FileNotFoundError as error:
        raise ModelLoadError(f"{path} is missing: download the model again.") from error
    except (SafetensorError, OSError) as error:
        raise ModelLoadError(f"{path} is not a whole safetensors file ({error}): download it again.") from error


def _shard_names(folder: Path) -> Mapping[str, set[str]]:
    """The folder's files, each with the tensors that the index places there; without one, a single file with any."""
    index = folder / INDEX_FILE
    if not index.exists():
        return {SINGLE_FILE: set()}
    shards: dict[str, set[str]] = {}
    for name, shard in read_json(index).get("weight_map", {}).items():
        if Path(shard).name != shard:
            raise ModelLoadError(f"{index} names {shard!r}, which is not a file of its folder.")
        shards.setdefault(shard, set()).add(name)
    return shards
