"""One plain log, whatever a library would rather have."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import logging
from readahead_platform.observe.logs import configure_logging
configure_logging()
from mcp.server.mcpserver import MCPServer
MCPServer("x", log_level="ERROR")
root = logging.getLogger()
print(logging.getLevelName(root.level), [type(handler).__name__ for handler in root.handlers])
"""


def test_an_mcp_server_changes_neither_level_nor_form_of_the_log() -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "WARNING ['StreamHandler']"
