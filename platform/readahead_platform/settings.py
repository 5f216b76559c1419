"""The settings tree: one frozen value, read once from `readahead.toml` and `READAHEAD_…` variables.

A key that nobody reads is an error, because a misspelt setting that is ignored costs its writer an afternoon.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from readahead_agents.settings import AgentSettings
from readahead_platform.errors import SettingsError
from readahead_retrieval.settings import RetrievalSettings
from readahead_serving.settings import ServingSettings

_PREFIX = "READAHEAD_"
_CONFIG_VARIABLE = "READAHEAD_CONFIG"
_TEST_PREFIX = "READAHEAD_TEST_"
"""Variables that steer the tests; the product does not read them."""
_FILE_NAME = "readahead.toml"
_DEFAULT_HOME = "~/.readahead"


class GatewaySettings(BaseModel):
    """`[gateway]` in readahead.toml, `READAHEAD_GATEWAY__…` in the environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    max_body_bytes: int = Field(default=8 << 20, ge=1 << 10)
    """Largest request body that is not a file upload; uploads are bounded by `retrieval.max_file_bytes`."""
    heartbeat_s: float = Field(default=10.0, gt=0)
    """Seconds of silence on a stream after which a comment is sent, so that proxies keep it open."""
    llm_start_timeout_s: float = Field(default=180.0, gt=0)
    """Seconds that the LLM server may take to load its models."""
    llm_idle_timeout_s: float = Field(default=120.0, gt=0)
    """Seconds without a byte from the LLM server after which a stream, which has heartbeats, is given up."""
    llm_answer_timeout_s: float = Field(default=600.0, gt=0)
    """Seconds that an answer that is not streamed may take; a request's own `timeout` ends it sooner."""
    drain_s: float = Field(default=5.0, ge=0)
    """Seconds that requests in flight may still take when the gateway stops; then they end with an error."""
    cag_max_tokens: int = Field(default=3000, ge=0)
    """Tokens up to which the route "auto" answers from a knowledge base's pack instead of searching; 0 never does."""
    response_tokens: int = Field(default=512, ge=1)
    """Output tokens of a response from a plain model whose client names no `max_output_tokens`. A small model that
    doesn't find an end would write until its window is full."""
    page_link_s: float = Field(default=3600.0, gt=0)
    """Seconds that a signed link to a page image holds."""


class Settings(BaseModel):
    """Everything that can be set. `READAHEAD_SERVING__MODEL` is `serving.model`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    home: Path = Path(_DEFAULT_HOME)
    """Holds the database, files, indexes, models, logs and credentials."""
    host: str = "127.0.0.1"
    """Address that the gateway listens on."""
    port: int = Field(default=8080, ge=1, le=65535)
    """Port of the gateway."""
    url: str = ""
    """Where clients find the gateway; empty takes the local port."""
    api_key: str = ""
    """The key that clients send; empty takes the one in `home`/credentials.json."""
    web: bool = True
    """Whether the web page is served at /."""
    gateway: GatewaySettings = GatewaySettings()
    serving: ServingSettings = ServingSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    agents: AgentSettings = AgentSettings()

    @property
    def client_url(self) -> str:
        """Base URL of the gateway as a client on this machine sees it, without a slash at its end."""
        return (self.url or f"http://127.0.0.1:{self.port}").rstrip("/")


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, and where each value came from."""

    settings: Settings
    origins: Mapping[str, str]
    """Dotted key → "default", a variable's name, a file's path, or an option's name."""

    def is_default(self, key: str) -> bool:
        return self.origins[key] == "default"


@dataclass(frozen=True, slots=True)
class _Value:
    value: Any
    origin: str


def read_settings(
    overrides: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> LoadedSettings:
    """Reads options over variables over the file over defaults.

    Args:
        overrides: Dotted key → value, from the command line; a value of None is skipped.
        environ: The environment; that of the process when None.
        cwd: Where `readahead.toml` is looked for first.

    Raises:
        SettingsError: An unknown key or variable (with the nearest known one), a bad value, or an unreadable file.
    """
    environ = os.environ if environ is None else environ
    known = list(_leaf_keys(Settings))
    values = dict(_from_file(_find_file(environ, cwd or _working_folder()), known))
    values.update(_from_environment(environ, known))
    values.update(_from_options(overrides or {}))
    _derive_paths(values)
    origins = {key: values[key].origin if key in values else "default" for key in known}
    return LoadedSettings(_validate(values), origins)


def _leaf_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _leaf_keys(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise SettingsError("The current folder was deleted; change to one that exists.") from error


def _find_file(environ: Mapping[str, str], cwd: Path) -> Path | None:
    named = environ.get(_CONFIG_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise SettingsError(f"{_CONFIG_VARIABLE} names {named!r}, which is no file.")
        return Path(named)
    home = _folder("home", _Value(environ.get(f"{_PREFIX}HOME", _DEFAULT_HOME), f"{_PREFIX}HOME"))
    return next((path for path in (cwd / _FILE_NAME, home / _FILE_NAME) if path.is_file()), None)


def _from_file(path: Path | None, known: list[str]) -> Iterator[tuple[str, _Value]]:
    if path is None:
        return
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    for key, value in _flatten(tree, known):
        if key not in known:
            raise SettingsError(f"{path} has the unknown key {key!r}{_hint(key, known)}.")
        yield key, _Value(value, str(path))


def _flatten(tree: Mapping[str, Any], known: list[str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        key = prefix + name
        if isinstance(value, dict) and key not in known:
            yield from _flatten(value, known, f"{key}.")
        else:
            yield key, value


def _from_environment(environ: Mapping[str, str], known: list[str]) -> Iterator[tuple[str, _Value]]:
    variables = {_variable(key): key for key in known}
    for name, text in environ.items():
        if not name.startswith(_PREFIX) or name == _CONFIG_VARIABLE or name.startswith(_TEST_PREFIX):
            continue
        if name not in variables:
            raise SettingsError(f"The variable {name} is unknown{_hint(name, list(variables))}.")
        yield variables[name], _Value(_parse(name, text), name)


def _from_options(overrides: Mapping[str, Any]) -> Iterator[tuple[str, _Value]]:
    for key, value in overrides.items():
        if value is not None:
            yield key, _Value(value, f"--{key.rpartition('.')[2]}")


def _variable(key: str) -> str:
    return _PREFIX + key.replace(".", "__").upper()


def environment_of(settings: BaseModel, prefix: str) -> dict[str, str]:
    """Variables that give a child process exactly these settings, under `prefix` ("serving")."""
    return {
        _variable(f"{prefix}.{name}"): json.dumps(value) if isinstance(value, list | dict) else str(value)
        for name, value in settings.model_dump(mode="json").items()
        if value is not None
    }


def _parse(name: str, text: str) -> Any:
    """Lists and tables are written as JSON; the rest is converted by the field's type."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{name} is not valid JSON: {error}.") from error


def _hint(name: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""


def _derive_paths(values: dict[str, _Value]) -> None:
    """Paths under `home` follow it unless they were set; `~` is the user's folder."""
    home = values.get("home", _Value(_DEFAULT_HOME, "default"))
    values["home"] = home
    _folder("home", home)  # before anything is derived from it
    origin = "default" if home.origin == "default" else f"home, from {home.origin}"
    values.setdefault("retrieval.home", _Value(home.value, origin))
    values.setdefault("serving.models_dir", _Value(Path(str(home.value)) / "models", origin))
    values.setdefault("serving.packs_dir", _Value(Path(str(home.value)) / "packs", origin))
    values.setdefault("serving.kernels_dir", _Value(Path(str(home.value)) / "kernels", origin))
    for key in ("home", "retrieval.home", "serving.models_dir", "serving.packs_dir", "serving.kernels_dir"):
        values[key] = _Value(_folder(key, values[key]), values[key].origin)


def _folder(key: str, value: _Value) -> Path:
    """An absolute path. Empty names nothing, and must not come to mean the current folder."""
    text = str(value.value)
    if not text.strip():
        raise SettingsError(f"{key} (from {value.origin}) is empty: name a folder, or leave it out.")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise SettingsError(f"{key} (from {value.origin}) cannot be {text!r}: there is no such user.") from error


def _validate(values: Mapping[str, _Value]) -> Settings:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *parents, leaf = key.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value.value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        origin = values[key].origin if key in values else "default"
        raise SettingsError(f"{key} (from {origin}) cannot be {first['input']!r}: {first['msg']}.") from error
