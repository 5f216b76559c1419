"""`readahead config`: the settings in force and where each came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from readahead_platform.commands.output import AsJson, print_json, print_table
from readahead_platform.settings import read_settings

_SECRETS = ("api_key", "database_url")


def config(as_json: AsJson = False) -> None:
    """Print every setting and where it came from. Secrets are masked."""
    loaded = read_settings()
    tree = loaded.settings.model_dump(mode="json")
    values = {key: _shown(key, _lookup(tree, key)) for key in loaded.origins}
    if as_json:
        print_json({"settings": {k: {"value": v, "origin": loaded.origins[k]} for k, v in values.items()}})
    else:
        print_table(("SETTING", "VALUE", "FROM"), [(k, v, loaded.origins[k]) for k, v in values.items()])


def _lookup(tree: Mapping[str, Any], key: str) -> Any:
    value: Any = tree
    for part in key.split("."):
        value = value[part]
    return value


def _shown(key: str, value: Any) -> Any:
    return "***" if key.rpartition(".")[2] in _SECRETS and value else value
