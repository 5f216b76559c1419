"""The model families that the decoder runs, each told apart by what differs: a few flags, no code path of its own.

A family joins by an entry in `FAMILIES`; whatever its layers do beyond these flags belongs in the decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.config import ModelConfig, RopeScaling
from readahead_serving.model.fields import Fields, token_ids
from readahead_serving.model.rope_scaling import rope_from_gguf, rope_from_hf


@dataclass(frozen=True, kw_only=True)
class Family:
    """How one family's files are read. Names are those of Hugging Face's `model_type` and GGUF's architecture."""

    name: str
    gguf_interleaves_rotary: bool
    """Whether GGUF files keep the query and key rows in pairs (2i, 2i+1) instead of in halves (i, i + dim/2)."""
    qkv_bias: bool = False
    """Whether queries, keys and values have biases in every config.json that does not say."""
    qk_norm: bool = False
    tied: bool = False
    """Whether a config.json that does not say ties the output layer to the embedding."""
    slides: bool = False
    """Whether `sliding_window` holds without `use_sliding_window`."""
    no_rope_interval: int = 0
    """Every so-manieth layer knows nothing of positions, unless config.json lists them; 0 for none."""


FAMILIES = {
    family.name: family
    for family in (
        Family(name="llama", gguf_interleaves_rotary=True),
        Family(name="mistral", gguf_interleaves_rotary=True, slides=True),
        Family(name="qwen2", gguf_interleaves_rotary=False, qkv_bias=True),
        Family(name="qwen3", gguf_interleaves_rotary=False, qk_norm=True),
        Family(name="smollm3", gguf_interleaves_rotary=True, tied=True, no_rope_interval=4),
    )
}


def find_family(name: object, origin: str) -> Family:
    """The family of that name.

    Raises:
        ModelLoadError: It is not among `FAMILIES`.
    """
    family = FAMILIES.get(str(name))
    if family is None:
        raise ModelLoadError(f"{origin} holds a {name!r} model; the families read here are {', '.join(FAMILIES)}.")
    return family


def config_from_hf(raw: Mapping[str, Any], origin: str) -> ModelConfig:
    """Reads a Hugging Face config.json.

    Raises:
        ModelLoadError: A field is missing, absurd or asks for what the decoder lacks.
    """
    fields = Fields(raw, origin)
    family = find_family(fields.get("model_type"), origin)
    fields.refuse_unless("hidden_act", ("silu",))
    fields.refuse_unless("partial_rotary_factor", (1.0,))
    heads, hidden = fields.integer("num_attention_heads"), fields.integer("hidden_size")
    kv_heads, head_dim = fields.integer("num_key_value_heads", heads), fields.integer("head_dim", hidden // heads)
    _check_heads(origin, heads, kv_heads, head_dim)
    layers = fields.integer("num_hidden_layers")
    bias = fields.get("attention_bias")
    theta, scaling = rope_from_hf(fields)
    return ModelConfig(
        family=family.name,
        vocab_size=fields.integer("vocab_size"),
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size"),
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        max_positions=_window(fields, family, scaling),
        rms_norm_eps=fields.number("rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_scaling=scaling,
        qkv_bias=family.qkv_bias if bias is None else bool(bias),
        output_bias=bool(bias) and not family.qkv_bias,
        mlp_bias=bool(fields.get("mlp_bias", False)),
        qk_norm=family.qk_norm,
        no_rope_layers=_no_rope_layers(fields, family, layers),
        tied_embeddings=bool(fields.get("tie_word_embeddings", family.tied)),
        bos_token_id=_first(fields.get("bos_token_id")),
        eos_token_ids=token_ids(fields.get("eos_token_id")),
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
    layers, positions = fields.integer(f"{arch}.block_count"), fields.integer(f"{arch}.context_length")
    eos = [fields.get(f"tokenizer.ggml.{kind}_token_id") for kind in ("eos", "eot", "eom")]
    theta, scaling = rope_from_gguf(fields, arch)
    return ModelConfig(
        family=family.name,
        vocab_size=fields.integer(f"{arch}.vocab_size", len(fields.get("tokenizer.ggml.tokens", ()))),
        hidden_size=hidden,
        intermediate_size=fields.integer(f"{arch}.feed_forward_length"),
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        max_positions=min(positions, fields.integer(f"{arch}.attention.sliding_window", positions)),
        rms_norm_eps=fields.number(f"{arch}.attention.layer_norm_rms_epsilon"),
        rope_theta=theta,
        rope_scaling=scaling,
        qkv_bias="blk.0.attn_q.bias" in tensor_names,
        output_bias="blk.0.attn_output.bias" in tensor_names,
        mlp_bias="blk.0.ffn_down.bias" in tensor_names,
        qk_norm=family.qk_norm,
        no_rope_layers=_every(family.no_rope_interval, layers),
        tied_embeddings="output.weight" not in tensor_names,
        bos_token_id=_first(fields.get("tokenizer.ggml.bos_token_id")),
        eos_token_ids=token_ids([one for one in eos if one is not None]),
    )


def _window(fields: Fields, family: Family, scaling: RopeScaling) -> int:
    """The tokens that can be served: what YaRN stretches the window to, and of a sliding window one window's worth."""
    positions = fields.integer("max_position_embeddings", 2048)
    if scaling.kind == "yarn":
        positions = max(positions, int(scaling.original_positions * scaling.factor))
    if fields.get("use_sliding_window", family.slides):
        positions = min(positions, fields.integer("sliding_window", positions))
    return positions


def _no_rope_layers(fields: Fields, family: Family, layers: int) -> frozenset[int]:
    """From `no_rope_layers`, in which, against its name, 0 marks a layer without rotary embedding."""
    listed = fields.get("no_rope_layers") if family.no_rope_interval else None
    if listed is None:
        interval = fields.get("no_rope_layer_interval", family.no_rope_interval) if family.no_rope_interval else 0
        return _every(interval, layers)
    if not isinstance(listed, list) or len(listed) < layers:
        raise ModelLoadError(f"{fields.origin}: no_rope_layers is {listed!r}, not a list of {layers} numbers.")
    return frozenset(number for number in range(layers) if not listed[number])


def _every(interval: int, layers: int) -> frozenset[int]:
    return frozenset(range(interval - 1, layers, interval)) if interval else frozenset()


def _check_heads(origin: str, heads: int, kv_heads: int, head_dim: int) -> None:
    if heads % kv_heads or head_dim % 2:
        raise ModelLoadError(f"{origin}: {heads} query heads of {head_dim} with {kv_heads} KV heads.")


def _first(value: object) -> int | None:
    ids = token_ids(value)
    return ids[0] if ids else None
