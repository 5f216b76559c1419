"""How a model says that its rotary frequencies are stretched beyond the window it was first trained on."""

from __future__ import annotations

import math
from collections.abc import Callable

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.config import RopeScaling
from readahead_serving.model.fields import Fields


def rope_from_hf(fields: Fields) -> tuple[float, RopeScaling]:
    """Theta and scaling, from `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before).

    Raises:
        ModelLoadError: The scaling is unknown or lacks a value.
    """
    rope = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise ModelLoadError(f"{fields.origin}: the rope scaling is {rope!r}, not an object.")
    nested = Fields(rope, f"{fields.origin}: rope")
    nested.refuse_unless("partial_rotary_factor", (1.0,))
    theta = nested.number("rope_theta", fields.number("rope_theta", 10_000.0))
    kind = str(nested.get("rope_type", nested.get("type", "default")))
    return theta, _read(_HF_READERS, kind, nested)


def rope_from_gguf(fields: Fields, arch: str) -> tuple[float, RopeScaling]:
    """Theta and scaling, from `{arch}.rope.*`; Llama 3's stretching is no scaling there but a tensor of its own.

    Raises:
        ModelLoadError: The scaling is unknown or lacks a value.
    """
    prefix = f"{arch}.rope.scaling."
    keys = ("type", "factor", "original_context_length", "attn_factor", "yarn_beta_fast", "yarn_beta_slow")
    scaling = Fields({key: fields.get(prefix + key) for key in keys}, f"{fields.origin}: rope.scaling")
    theta = fields.number(f"{arch}.rope.freq_base", 10_000.0)
    return theta, _read(_GGUF_READERS, str(scaling.get("type", "none")), scaling)


_Reader = Callable[[Fields], RopeScaling]


def _read(readers: dict[str, _Reader], kind: str, fields: Fields) -> RopeScaling:
    if kind not in readers:
        raise ModelLoadError(
            f"{fields.origin}: the rope scaling {kind!r} is not supported (only {', '.join(readers)})."
        )
    return readers[kind](fields)


def _unscaled(fields: Fields) -> RopeScaling:
    return RopeScaling()


def _linear(fields: Fields) -> RopeScaling:
    return RopeScaling("linear", fields.number("factor", 1.0))


def _llama3(fields: Fields) -> RopeScaling:
    return RopeScaling(
        "llama3",
        fields.number("factor"),
        original_positions=fields.integer("original_max_position_embeddings"),
        low_frequency_factor=fields.number("low_freq_factor"),
        high_frequency_factor=fields.number("high_freq_factor"),
    )


def _yarn_attention(factor: float, weight: float = 1.0) -> float:
    """YaRN's temperature (Peng et al. 2023, arXiv:2309.00071, equation 22), as a factor of queries and keys."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def _yarn_from_hf(fields: Fields) -> RopeScaling:
    factor = fields.number("factor")
    above, below = fields.get("mscale"), fields.get("mscale_all_dim")
    ratio = _yarn_attention(factor, above) / _yarn_attention(factor, below) if above and below else None
    return RopeScaling(
        "yarn",
        factor,
        original_positions=fields.integer("original_max_position_embeddings"),
        beta_fast=fields.number("beta_fast", 32.0),
        beta_slow=fields.number("beta_slow", 1.0),
        truncate=bool(fields.get("truncate", True)),
        attention_factor=fields.number("attention_factor", ratio or _yarn_attention(factor)),
    )


def _yarn_from_gguf(fields: Fields) -> RopeScaling:
    factor = fields.number("factor")
    return RopeScaling(
        "yarn",
        factor,
        original_positions=fields.integer("original_context_length"),
        beta_fast=fields.number("yarn_beta_fast", 32.0),
        beta_slow=fields.number("yarn_beta_slow", 1.0),
        # llama.cpp multiplies its own factor by YaRN's
        attention_factor=fields.number("attn_factor", 1.0) * _yarn_attention(factor),
    )


_HF_READERS: dict[str, _Reader] = {
    "default": _unscaled,
    # stretches nothing within the trained window, and no more than that window is served
    "dynamic": _unscaled,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn_from_hf,
}
_GGUF_READERS: dict[str, _Reader] = {"none": _unscaled, "linear": _linear, "yarn": _yarn_from_gguf}
