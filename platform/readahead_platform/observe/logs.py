"""What the service says to the terminal, and how."""

from __future__ import annotations

import logging


def configure_logging() -> None:
    """Warnings and worse, in plain lines. Call it first.

    A library that finds no handlers installs its own: the MCP SDK's draws tracebacks in boxes, which takes seconds on
    the event loop, and raises the level of the whole process.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
