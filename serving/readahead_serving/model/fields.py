"""A model's own description of itself, read with errors that name the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from readahead_serving.errors import ModelLoadError


class Fields:
    """Values by key. A null counts as absent.

    Args:
        values: What a config.json or a GGUF file's metadata holds.
        origin: Names it in errors.
    """

    def __init__(self, values: Mapping[str, Any], origin: str) -> None:
        self.origin = origin
        self._values = values

    def get(self, key: str, default: Any = None) -> Any:
        value = self._values.get(key)
        return default if value is None else value

    def integer(self, key: str, default: int | None = None) -> int:
        """A positive whole number.

        Raises:
            ModelLoadError: It is something else, or absent without a default.
        """
        value = self.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelLoadError(f"{self.origin}: {key} is {value!r}, not a positive whole number.")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A positive number; raises as `integer` does."""
        value = self.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise ModelLoadError(f"{self.origin}: {key} is {value!r}, not a positive number.")
        return float(value)

    def refuse_unless(self, key: str, allowed: tuple[object, ...]) -> None:
        """Refuses a value that would change the computation."""
        if (value := self.get(key, allowed[0])) not in allowed:
            raise ModelLoadError(f"{self.origin}: {key} {value!r} is not supported (only {allowed[0]!r}).")


def token_ids(value: object) -> tuple[int, ...]:
    """One id, a list of ids or nothing, without repetitions."""
    values = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(one for one in values if isinstance(one, int)))
