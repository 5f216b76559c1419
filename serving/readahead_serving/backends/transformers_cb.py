"""The fallback for models of other families: transformers, behind the same `Engine`, without packs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from importlib.util import find_spec
from pathlib import Path

from readahead_serving.backends.native import NativeEngine
from readahead_serving.engine.request import GenerationDelta, GenerationRequest, SamplingParams
from readahead_serving.errors import ModelLoadError, RequestRefused
from readahead_serving.model.families import FAMILIES
from readahead_serving.model.json_file import read_json

_UNSUPPORTED = {
    "min_p": "min_p",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "seed": "seed",
    "json_schema": "response_format",
    "regex": "regex",
    "grammar": "grammar",
    "logit_bias": "logit_bias",
    "logprobs": "logprobs",
}
"""Sampling parameters that transformers' batching lacks, and the fields of a request that set them."""
_PLAIN = SamplingParams(max_tokens=1)


def needs_transformers(path: Path) -> bool:
    """Whether a model is of a family that our own engine does not run.

    Raises:
        ModelLoadError: It is, and transformers is not installed; or its config.json is unreadable.
    """
    if not path.is_dir():
        return False
    family = read_json(path / "config.json").get("model_type")
    if family in FAMILIES:
        return False
    if find_spec("transformers") is None:
        raise ModelLoadError(
            f"{path} holds a {family!r} model, which only transformers runs: pip install 'readahead[fallback]'. "
            f"Without it: {', '.join(FAMILIES)}."
        )
    return True


class TransformersEngine(NativeEngine):
    """Implements `backends.base.Engine` over transformers, in a process of its own; packs there are none."""

    process_module = "readahead_serving.backends.transformers_process"

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationDelta, None]:
        """See `Engine.generate`; parameters that transformers lacks are refused by name."""
        refuse_unsupported(request.sampling)
        async for delta in super().generate(request):
            yield delta


def refuse_unsupported(sampling: SamplingParams) -> None:
    """Refuses what this backend would have to ignore.

    Raises:
        RequestRefused: Names the first such parameter.
    """
    for name, field in _UNSUPPORTED.items():
        if getattr(sampling, name) != getattr(_PLAIN, name):
            raise RequestRefused(
                f"{field}: this model runs on transformers, which does not support it here: leave it out.",
                param=field,
                code="unsupported_parameter",
            )
