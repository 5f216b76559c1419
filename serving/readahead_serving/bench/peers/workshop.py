"""A folder in which other servers are installed and built, kept between runs and never mixed with our environment."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from readahead_serving.errors import PeerAbsent

_STEP_S = 3600.0
_LAST_WORDS = 300


def default_folder() -> Path:
    """Where caches are kept on this machine."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return root / "readahead" / "peers"


class Workshop:
    """One peer's folder.

    Args:
        folder: Made when it is first used.
        tell: Takes a line about what is being done, for whoever waits.
    """

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self.folder = folder
        self.tell = tell
        self._log = folder / "install.log"

    @property
    def commands(self) -> Path:
        """The commands of the environment made here."""
        return self.folder / "venv" / "bin"

    async def make_environment(self, requirements: Sequence[str], unwanted: Sequence[str] = ()) -> None:
        """A virtual environment of its own, made anew where the recipe has changed.

        Args:
            requirements: As pip takes them.
            unwanted: Packages that come along and are taken out again.

        Raises:
            PeerAbsent: It can't be made.
        """

        async def install() -> None:
            self.tell(f"installing {', '.join(requirements)}")
            await self.run(sys.executable, "-m", "venv", "--clear", str(self.folder / "venv"))
            await self.pip("install", *requirements)
            if unwanted:
                await self.pip("uninstall", "--yes", *unwanted)

        await self.make_once("venv", [*requirements, *unwanted], install)

    async def make_once(self, name: str, recipe: Sequence[str], make: Callable[[], Awaitable[None]]) -> None:
        """Makes something unless it was made by the same recipe: the stamp is written last, so half a thing is redone.

        Raises:
            PeerAbsent: As `make`.
        """
        stamp, wanted = self.folder / f".{name}", "\n".join(recipe)
        if stamp.exists() and stamp.read_text("utf-8") == wanted:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        await make()
        stamp.write_text(wanted, "utf-8")

    async def pip(self, *arguments: str) -> None:
        """Raises:
        PeerAbsent: It failed.
        """
        await self.run(str(self.commands / "python"), "-m", "pip", "--disable-pip-version-check", *arguments)

    async def run(self, *command: str) -> None:
        """Runs a command here, its output going to a log; ended with us.

        Raises:
            PeerAbsent: It can't be run, or failed; with the last of its words.
        """
        with self._log.open("ab") as log:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command, cwd=self.folder, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
                )
            except OSError as error:
                raise PeerAbsent(f"{command[0]}: {error.strerror}.") from error
        try:
            code = await asyncio.wait_for(process.wait(), _STEP_S)
        except TimeoutError as error:
            raise PeerAbsent(f"{command[0]} took over {_STEP_S:.0f} s.") from error
        finally:
            if process.returncode is None:
                process.kill()
        if code != 0:
            words = self._log.read_text("utf-8", errors="replace")[-_LAST_WORDS:]
            raise PeerAbsent(f"{Path(command[0]).name} ended with code {code}: {words.splitlines()[-1]} ({self._log})")
