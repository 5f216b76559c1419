"""What is told where the documents are too many for one pack: how large they are, and what can be done."""

from __future__ import annotations

import json

from readahead_platform.errors import ApiError
from readahead_platform.gateway.llm_client import UpstreamAnswer

_TOO_LARGE = "context_length_exceeded"


def unless_too_large(answer: UpstreamAnswer, kb: str, *, of_document: bool = False) -> UpstreamAnswer:
    """The LLM server's answer on a pack.

    Args:
        of_document: The pack is that of one document of the knowledge base, and not of them all.

    Raises:
        ApiError: The model's window cannot hold it.
    """
    if answer.status != 400:
        return answer
    error = json.loads(answer.body)["error"]
    if error["code"] != _TOO_LARGE:
        return answer
    mend = "Split the document" if of_document else f"Pack single documents (`readahead kb pack {kb} --document NAME`)"
    what = f"The document of {kb}" if of_document else kb
    message = (
        f"{what} is too large for one pack. {error['message']} {mend}, use smaller knowledge bases, or a model with a "
        "larger window; `auto`, `rag` and `agent` need no pack."
    )
    raise ApiError(400, message, param="document" if of_document else "vector_store", code=_TOO_LARGE)
