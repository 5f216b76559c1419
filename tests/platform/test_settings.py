"""Settings: read strictly, from every source, and told where they came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from readahead_platform.errors import SettingsError
from readahead_platform.settings import environment_of, read_settings


def write(folder: Path, text: str) -> Path:
    path = folder / "readahead.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_options_outrank_variables_and_variables_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'port = 9001\nhost = "0.0.0.0"\nweb = false\n[serving]\nmax_running = 3\n')
    loaded = read_settings(
        {"port": 9003, "serving.model": None},
        environ={"READAHEAD_PORT": "9002", "READAHEAD_HOST": "127.0.0.9"},
        cwd=tmp_path,
    )
    assert (loaded.settings.port, loaded.origins["port"]) == (9003, "--port")
    assert (loaded.settings.host, loaded.origins["host"]) == ("127.0.0.9", "READAHEAD_HOST")
    assert (loaded.settings.web, loaded.origins["web"]) == (False, str(file))
    assert loaded.settings.serving.max_running == 3
    assert loaded.is_default("serving.model")


@pytest.mark.parametrize(
    ("environ", "toml", "named", "nearest"),
    [
        ({"READAHEAD_PROT": "1"}, "", "READAHEAD_PROT", "READAHEAD_PORT"),
        ({"READAHEAD_SERVING__MODLE": "x"}, "", "READAHEAD_SERVING__MODLE", "READAHEAD_SERVING__MODEL"),
        ({}, "[serving]\nmax_runing = 3", "serving.max_runing", "serving.max_running"),
        ({}, "[servign]\nport = 3", "servign.port", "serving.port"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(
    environ: dict[str, str], toml: str, named: str, nearest: str, tmp_path: Path
) -> None:
    write(tmp_path, toml)
    with pytest.raises(SettingsError) as raised:
        read_settings(environ=environ, cwd=tmp_path)
    assert named in str(raised.value)
    assert f"{nearest!r}" in str(raised.value)


def test_a_bad_value_is_an_error_that_names_its_source(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"port \(from READAHEAD_PORT\) cannot be 'many'"):
        read_settings(environ={"READAHEAD_PORT": "many"}, cwd=tmp_path)


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no file"):
        read_settings(environ={"READAHEAD_CONFIG": str(tmp_path / "none.toml")}, cwd=tmp_path)


def test_the_file_in_the_home_is_read_when_the_working_folder_has_none(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    write(home, "port = 9001")
    loaded = read_settings(environ={"READAHEAD_HOME": str(home)}, cwd=tmp_path)
    assert loaded.settings.port == 9001


def test_folders_follow_the_home_unless_they_are_set(tmp_path: Path) -> None:
    environ = {"READAHEAD_HOME": str(tmp_path / "home"), "READAHEAD_SERVING__MODELS_DIR": str(tmp_path / "models")}
    settings = read_settings(environ=environ, cwd=tmp_path).settings
    assert settings.retrieval.home == tmp_path / "home"
    assert settings.serving.models_dir == tmp_path / "models"
    del environ["READAHEAD_SERVING__MODELS_DIR"]
    assert read_settings(environ=environ, cwd=tmp_path).settings.serving.models_dir == tmp_path / "home" / "models"


def test_a_child_reads_the_settings_that_its_parent_hands_on(tmp_path: Path) -> None:
    parent = read_settings(
        {"serving.model": "some/model", "serving.kv_cache_bytes": 1 << 22}, environ={}, cwd=tmp_path
    ).settings.serving.model_copy(update={"api_key": "secret"})
    child = read_settings(environ=environment_of(parent, "serving"), cwd=tmp_path).settings.serving
    assert child == parent


@pytest.mark.parametrize(("home", "says"), [("", "READAHEAD_HOME.*empty"), ("~no-such-user/x", "no such user")])
def test_a_home_that_names_no_folder_is_an_error(home: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=says):
        read_settings(environ={"READAHEAD_HOME": home}, cwd=tmp_path)
