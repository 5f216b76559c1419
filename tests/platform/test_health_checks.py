"""What `readahead doctor` says of the port: free, taken by a stranger, or ours."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from urllib.parse import urlsplit

from readahead_platform.health_checks import Check, run_checks
from readahead_platform.settings import Settings
from tests.platform.gateway import Gateway
from tests.platform.running import free_port


def port_check(home: Path, port: int) -> Check:
    [check] = [one for one in run_checks(Settings(home=home, port=port)) if one.name == "port"]
    return check


async def test_a_gateway_that_runs_there_is_known_as_ours(gateway: Gateway, tmp_path: Path) -> None:
    port = urlsplit(gateway.url).port
    assert port is not None
    check = await asyncio.to_thread(port_check, tmp_path, port)
    assert (check.ok, check.detail) == (True, f"{port}: Readahead runs there")


def test_a_port_that_a_stranger_has_is_called_taken(tmp_path: Path) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        port = stranger.getsockname()[1]
        check = port_check(tmp_path, port)
    assert not check.ok and not check.required
    assert str(port) in check.detail and "--port" in check.detail


def test_a_free_port_is_called_free(tmp_path: Path) -> None:
    port = free_port()
    assert port_check(tmp_path, port) == Check("port", True, False, f"{port} is free")
