"""A tiny random checkpoint that a whole server runs: a step takes a millisecond or two, and its tokens are bytes."""

from __future__ import annotations

from pathlib import Path

from tests.serving.test_backends_transformers import save_byte_tokenizer
from tests.serving.test_model_families import save_random_model

VOCAB = 256
WINDOW = 16_384


def save_tiny_model(folder: Path) -> Path:
    """Writes the model into a new folder; gives the folder."""
    folder.mkdir()
    shape = {"vocab_size": VOCAB, "max_position_embeddings": WINDOW, "num_key_value_heads": 2, "eos_token_id": 255}
    save_random_model(folder, "llama", shape)
    save_byte_tokenizer(folder)
    return folder
