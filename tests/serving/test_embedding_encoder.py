"""The embedding model's arithmetic beside sentence-transformers' own, with padding and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from tokenizers import Tokenizer, models, pre_tokenizers

from readahead_serving.embedding_bert import BertEncoder
from readahead_serving.embedding_encoder import Encoder
from readahead_serving.kernels.build import Level
from tests.serving.kernel_levels import LEVELS, kernels_of

WORDS = 50
BATCH = [[5, 9, 7], [4, *range(10, 45), 6], [5, 8, 7], [3, 2], [9] * 60, [11, 12, 13, 14]]
"""Ids of several lengths, two of them equal, not in order; 0 and 1 are the paddings."""


def small_model(family: str, folder: Path) -> Path:
    """Two layers of random weights, all of them large enough to matter."""
    shape: dict[str, float] = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"intermediate_size": 64, "max_position_embeddings": 80, "initializer_range": 0.4}
    torch.manual_seed(3)
    config, kind = getattr(transformers, f"{family}Config"), getattr(transformers, f"{family}Model")
    inner = kind(config(**shape))
    with torch.no_grad():
        for parameter in inner.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    inner.save_pretrained(folder / "inner")
    words = {f"w{number}": number for number in range(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w2"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": f"w{inner.config.pad_token_id}", "unk_token": "w2"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder / "inner")
    trunk = SentenceTransformer(str(folder / "inner"), device="cpu")[0]
    trunk.max_seq_length = 64
    SentenceTransformer(modules=[trunk, Pooling(32, "mean"), Normalize()], device="cpu").save(str(folder / "whole"))
    return folder / "whole"


def as_sentence_transformers(model: SentenceTransformer, batch: list[list[int]]) -> npt.NDArray[np.float32]:
    """One sequence after the other, so nothing is padded there."""
    with torch.inference_mode():
        rows = [
            model({"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.int64)})
            for ids in batch
        ]
    return torch.cat([row["sentence_embedding"] for row in rows]).float().numpy()


def rows_of(encoder: Encoder, batch: list[list[int]]) -> npt.NDArray[np.float32]:
    return np.frombuffer(encoder.embed(batch), dtype="<f4").reshape(len(batch), encoder.dimension)


@pytest.mark.parametrize("family", ["Bert", "Roberta", "XLMRoberta", "MPNet"])
def test_a_family_gives_the_vectors_of_sentence_transformers(family: str, tmp_path: Path) -> None:
    path = small_model(family, tmp_path)
    reference = SentenceTransformer(str(path), device="cpu").eval()
    assert BertEncoder.computes(reference[0].auto_model) is (family != "MPNet")
    encoder = Encoder(path, threads=1, bfloat16=False)
    assert (encoder.dimension, encoder.max_length) == (32, 64)
    expected = as_sentence_transformers(reference, BATCH)
    assert np.allclose(rows_of(encoder, BATCH), expected, atol=2e-5)
    assert np.abs(expected[0] - expected[2]).max() > 0.01, "vectors that say nothing prove nothing"


@pytest.fixture(scope="module")
def passages(minilm_path: Path) -> tuple[list[list[int]], npt.NDArray[np.float32]]:
    """Texts from a word to a full window in three languages, and their vectors in float32."""
    prose = (
        "The lodging limit in zone A is 140 euros a night, breakfast included; receipts are due within thirty days. "
        "직원은 매년 25일의 유급 휴가를 받으며, 남은 휴가는 다음 해 3월 말까지 써야 한다. "
        "Das Ventil öffnet bei 12 bar und schließt bei 9 bar, sofern der Kessel kalt ist. "
    )
    words = prose.split() * 9
    texts = [" ".join(words[start : start + count]) for start, count in enumerate([1, 2, 3, 5, 9, 20, 60, 120, 70])]
    tokenizer = Tokenizer.from_file(str(minilm_path / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    batch = [encoding.ids for encoding in tokenizer.encode_batch([*texts, "What?", "12", "x" * 40])]
    model: Any = SentenceTransformer(str(minilm_path), device="cpu").eval()
    return batch, as_sentence_transformers(model, batch)


@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize("level", [None, *LEVELS])
def test_vectors_of_the_default_model_are_float32s_by_cosine(
    level: Level | None,
    bfloat16: bool,
    minilm_path: Path,
    passages: tuple[list[list[int]], npt.NDArray[np.float32]],
) -> None:
    batch, expected = passages
    kernels = None if level is None else kernels_of(level)
    rows = rows_of(Encoder(minilm_path, threads=1, bfloat16=bfloat16, kernels=kernels), batch)
    cosines = (rows * expected).sum(axis=1) / np.linalg.norm(rows, axis=1)
    assert cosines.min() >= (0.999 if bfloat16 else 0.999999)


def test_other_weights_have_another_revision(tmp_path: Path) -> None:
    path = small_model("Bert", tmp_path)
    before = Encoder(path, threads=1, bfloat16=False).revision
    assert before == Encoder(path, threads=1, bfloat16=False).revision
    weights = path / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert Encoder(path, threads=1, bfloat16=False).revision != before
