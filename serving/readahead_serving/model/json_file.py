"""The JSON files of a model's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from readahead_serving.errors import ModelLoadError


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object from a model's folder.

    Raises:
        ModelLoadError: The file is missing or not a JSON object.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ModelLoadError(f"Cannot read {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise ModelLoadError(f"{path} is not JSON ({error}): download the model again.") from error
    if not isinstance(value, dict):
        raise ModelLoadError(f"{path} is not a JSON object: download the model again.")
    return value
