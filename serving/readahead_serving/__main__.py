"""`python -m readahead_serving '{"port": 8001, …}'`: the LLM server with settings given as JSON."""

from __future__ import annotations

import sys

from readahead_serving.cli import main

main(sys.argv[1] if len(sys.argv) > 1 else "{}")
