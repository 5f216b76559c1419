"""The model families that the decoder runs, each told apart by what differs: a few flags, no code path of its own.

A family joins by an entry in `FAMILIES`; whatever its layers do beyond these flags belongs in the decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.config import ModelConfig, RopeScaling


@dataclass(frozen=True)
class Family:
    """How one family's files are read. Names are those of Hugging Face's `model_type` and GGUF's architecture."""

    name: str
    qkv_bias: bool
    """Whether queries, keys and values have biases; an explicit `attention_bias` in config.json wins."""
    gguf_interleaves_rotary: bool
    """Whether GGUF files keep the query and key rows in pairs (2i, 2i+1) instead of in halves (i, i + dim/2)."""


FAMILIES = {
    family.name: family
    for family in (
        Family("llama", qkv_bias=False, gguf_interleaves_rotary=True),
        Family("qwen2", qkv_bias=True, gguf_interleaves_rotary=False),
    )
}

_SCALINGS = {"default": "default", "none": "default", "linear": "linear"}


def find_family(name: object, origin: str) -> Family:
    """The family of that name.

    Raises:
        ModelLoadError: It is not among `FAMILIES`.
    """
    family = FAMILIES.get(str(name))
    if family is None:
        raise ModelLoadError(f"{origin} holds a {name!r} model; the families read here are {', '.join(FAMILIES)}.")
    return family


class Fields:
    """A model's own description of itself, read with an error that names the field."""

    def __init__(self, values: Mapping[str, Any], origin: str) -> None:
        self.origin = origin
        self._values = values

    def get(self, key: str, default: Any = None) -> Any:
        value = self._values.get(key)
        return default if value is None else value

    def integer(self, key: str, default: int | None = None) -> int:
        """A positive whole number."""
        value = self.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelLoadError(f"{self.origin}: {key} is {value!r}, not a positive whole number.")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A positive number."""
        value = self.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise ModelLoadError(f"{self.origin}: {key} is {value!r}, not a positive number.")
        return float(value)

    def refuse_unless(self, key: str, allowed: tuple[object, ...]) -> None:
        """Refuses a value that would change the computation."""
        if (value := self.get(key, allowed[0])) not in allowed:
            raise ModelLoadError(f"{self.origin}: {key} {value!r} is not supported (only {allowed[0]!r}).")


def config_from_hf(raw: Mapping[str, Any], origin: str) -> ModelConfig:
    """Reads a Hugging Face config.json.

    Raises:
        ModelLoadError: A field is missing, absurd or asks for what the decoder lacks.
    """
    fields = Fields(raw, origin)
    family = find_family(fields.get("model_type"), origin)
    fields.refuse_unless("hidden_act", ("silu",))
    fields.refuse_unless("use_sliding_window", (False,))
    fields.refuse_unless("mlp_bias", (False,))
    fields.refuse_unless("partial_rotary_factor", (1.0,))
    heads, hidden = fields.integer("num_attention_heads"), fields.integer("hidden_size")
    kv_heads, head_dim = fields.integer("num_key_value_heads", heads), fields.integer("head_dim", hidden // heads)
    _check_heads(origin, heads, kv_heads, head_dim)
    bias = fields.get("attention_bias")
    theta, scaling = _hf_rope(fields)
    return ModelConfig(
        family=family.name,
        vocab_size=fields.integer("vocab_size"),
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size"),
        num_layers=fields.integer("num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        max_positions=fields.integer("max_position_embeddings", 2048),
        rms_norm_eps=fields.number("rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_scaling=scaling,
        qkv_bias=family.qkv_bias if bias is None else bool(bias),
        output_bias=bool(bias) and not family.qkv_bias,
        tied_embeddings=bool(fields.get("tie_word_embeddings", False)),
        bos_token_id=_first(fields.get("bos_token_id")),
        eos_token_ids=_token_ids(fields.get("eos_token_id")),
    )


def config_from_gguf(metadata: Mapping[str, Any], tensor_names: frozenset[str], origin: str) -> ModelConfig:
    """Reads GGUF metadata.

    Raises:
        ModelLoadError: A field is missing, absurd or asks for what the decoder lacks.
    """
    arch = str(metadata.get("general.architecture"))
    family = find_family(arch, origin)
    fields = Fields(metadata, origin)
    heads, hidden = fields.integer(f"{arch}.attention.head_count"), fields.integer(f"{arch}.embedding_length")
    kv_heads = fields.integer(f"{arch}.attention.head_count_kv", heads)
    head_dim = fields.integer(f"{arch}.attention.key_length", hidden // heads)
    _check_heads(origin, heads, kv_heads, head_dim)
    fields.refuse_unless(f"{arch}.rope.dimension_count", (head_dim,))
    vocab = len(fields.get("tokenizer.ggml.tokens", ()))
    eos = [fields.get(f"tokenizer.ggml.{kind}_token_id") for kind in ("eos", "eot", "eom")]
    return ModelConfig(
        family=family.name,
        vocab_size=fields.integer(f"{arch}.vocab_size", vocab),
        hidden_size=hidden,
        intermediate_size=fields.integer(f"{arch}.feed_forward_length"),
        num_layers=fields.integer(f"{arch}.block_count"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        max_positions=fields.integer(f"{arch}.context_length"),
        rms_norm_eps=fields.number(f"{arch}.attention.layer_norm_rms_epsilon"),
        rope_theta=fields.number(f"{arch}.rope.freq_base", 10_000.0),
        rope_scaling=_scaling(
            fields,
            fields.get(f"{arch}.rope.scaling.type", "none"),
            fields.number(f"{arch}.rope.scaling.factor", 1.0),
        ),
        qkv_bias=family.qkv_bias,
        tied_embeddings="output.weight" not in tensor_names,
        bos_token_id=_first(fields.get("tokenizer.ggml.bos_token_id")),
        eos_token_ids=_token_ids([one for one in eos if one is not None]),
    )


def _hf_rope(fields: Fields) -> tuple[float, RopeScaling]:
    """Theta and scaling, from `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before)."""
    rope = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
    nested = Fields(rope, f"{fields.origin}: rope")
    nested.refuse_unless("partial_rotary_factor", (1.0,))
    theta = nested.number("rope_theta", fields.number("rope_theta", 10_000.0))
    kind = nested.get("rope_type", nested.get("type", "default"))
    return theta, _scaling(nested, kind, nested.number("factor", 1.0))


def _scaling(fields: Fields, kind: object, factor: float) -> RopeScaling:
    match _SCALINGS.get(str(kind)):
        case "default":
            return RopeScaling()
        case "linear":
            return RopeScaling("linear", factor)
        case _:
            raise ModelLoadError(f"{fields.origin}: the rope scaling {kind!r} is not supported.")


def _check_heads(origin: str, heads: int, kv_heads: int, head_dim: int) -> None:
    if heads % kv_heads or head_dim % 2:
        raise ModelLoadError(f"{origin}: {heads} query heads of {head_dim} with {kv_heads} KV heads.")


def _first(value: object) -> int | None:
    ids = _token_ids(value)
    return ids[0] if ids else None


def _token_ids(value: object) -> tuple[int, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(one for one in values if isinstance(one, int)))
