"""What the decoder needs to know about a model, whatever file format said it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class RopeScaling:
    """How rotary frequencies are stretched beyond the trained window."""

    kind: Literal["default", "linear", "llama3", "yarn"] = "default"
    factor: float = 1.0
    """The window grows by it: positions are divided by it, in part or as a whole."""
    original_positions: int = 0
    """The window before ("llama3", "yarn"), in tokens."""
    low_frequency_factor: float = 1.0
    """"llama3": wavelengths above the window over this are stretched in full."""
    high_frequency_factor: float = 4.0
    """"llama3": wavelengths below the window over this are left alone."""
    beta_fast: float = 32.0
    """"yarn": frequencies that turn this often in the window, or more, are left alone."""
    beta_slow: float = 1.0
    """"yarn": frequencies that turn this often, or less, are stretched in full."""
    truncate: bool = True
    """"yarn": whether the two borders are whole dimensions."""
    attention_factor: float = 1.0
    """Queries and keys are multiplied by it ("yarn")."""


@dataclass(frozen=True)
class ModelConfig:
    """The shape of one decoder-only model."""

    family: str
    """A name from `families.FAMILIES`."""
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    """Query heads."""
    num_kv_heads: int
    """Key and value heads; divides `num_heads` (grouped-query attention)."""
    head_dim: int
    max_positions: int
    """The context window in tokens. Where layers attend to a sliding window only, it is that window: up to its length
    sliding changes nothing, and beyond it nothing is served."""
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling = field(default_factory=RopeScaling)
    qkv_bias: bool = False
    output_bias: bool = False
    """Whether the attention's output projection has a bias."""
    mlp_bias: bool = False
    qk_norm: bool = False
    """Whether each head's query and key are normalised before they are turned."""
    no_rope_layers: frozenset[int] = frozenset()
    """Layers, from 0, that know nothing of positions ("NoPE", Kazemnejad et al. 2023, arXiv:2305.19466)."""
    tied_embeddings: bool = False
    """Whether the output layer is the embedding table."""
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    """Any of them ends a completion."""

    def __post_init__(self) -> None:
        assert self.num_heads % self.num_kv_heads == 0, (self.num_heads, self.num_kv_heads)
        assert self.head_dim % 2 == 0, self.head_dim
        assert min(self.vocab_size, self.hidden_size, self.intermediate_size, self.num_layers, self.max_positions) > 0

    @property
    def qkv_sizes(self) -> tuple[int, int, int]:
        """Rows of the query, key and value projections."""
        return self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim, self.num_kv_heads * self.head_dim
