"""A disk that is really full, and then is not."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.platform.gateway import Gateway, running_gateway
from tests.retrieval import pdf_samples as samples

MEGABYTES = 12


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own; skips where this user may not mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small file system is not allowed here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Takes what is left of the disk."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 9):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue


async def database_part(gateway: Gateway, is_meant: Callable[[str], bool]) -> str:
    """What readiness tells of the database, once it is what is meant."""
    http = gateway.http("")
    async with asyncio.timeout(60):
        while True:
            told = str((await http.get("/health/ready")).json()["parts"]["database"])
            if is_meant(told):
                return told
            await asyncio.sleep(0.1)


async def test_a_full_disk_is_told_by_every_part_and_nothing_is_lost_once_there_is_room(
    small_disk: Path, tmp_path: Path, manual: Path
) -> None:
    large = samples.write_pdf(tmp_path / "large.pdf", *([samples.lines("The yard is locked at night.")] * 200))
    async with running_gateway(small_disk / "home") as gateway:
        http = gateway.http()
        store = (await http.post("/v1/vector_stores", json={"name": "k"})).json()["id"]
        kept = await upload(gateway, manual)
        fill(small_disk / "filler")
        refused = await http.post("/v1/files", data={"purpose": "assistants"}, files={"file": large.read_bytes()})
        assert (refused.status_code, refused.json()["error"]["code"]) == (507, "disk_full")
        assert "disk is full" in await database_part(gateway, lambda told: told != "ready")
        (small_disk / "filler").unlink()
        await database_part(gateway, lambda told: told == "ready")
        attached = await gateway.sdk().vector_stores.files.create_and_poll(
            kept, vector_store_id=store, poll_interval_ms=50
        )
        assert attached.status == "completed", attached.last_error
        assert [file["id"] for file in (await http.get("/v1/files")).json()["data"]] == [kept], "no half file is left"


async def upload(gateway: Gateway, path: Path) -> str:
    return (await gateway.sdk().files.create(file=path, purpose="assistants")).id
