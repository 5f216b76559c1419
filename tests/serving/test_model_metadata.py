"""What the API process reads of a model."""

from __future__ import annotations

import subprocess
import sys


def test_tokenizer_shape_and_store_need_no_pytorch() -> None:
    script = (
        "import sys\n"
        "import readahead_serving.model.metadata, readahead_serving.model.store, readahead_serving.model.catalogue\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
