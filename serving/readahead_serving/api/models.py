"""What this server serves: filled while models load, read by every handler."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from readahead_serving.backends.base import Engine
from readahead_serving.backends.structures import StructureChecks
from readahead_serving.embeddings import EmbeddingModel
from readahead_serving.errors import EngineUnavailable, ModelNotFound
from readahead_serving.packs.shelf import PackShelf


class PromptTokenizer(Protocol):
    """What the API needs of a language model's tokenizer. Its calls may be slow: make them in a thread."""

    @property
    def vocab_size(self) -> int: ...

    def encode(self, text: str, *, allow_special: bool) -> list[int]: ...

    def encode_prompt(self, text: str) -> list[int]: ...

    def least_tokens(self, text: str) -> int: ...

    @property
    def knows_tools(self) -> bool: ...

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]: ...

    def token_bytes(self, token_id: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A language model with the engine that runs it."""

    name: str
    engine: Engine
    tokenizer: PromptTokenizer
    max_model_len: int
    """Tokens of prompt and completion together, at most."""
    packs: PackShelf | None = None
    """Its knowledge packs; None where the backend has none."""
    backend: Literal["native", "transformers"] = "native"
    """What computes it."""
    structures: StructureChecks = field(default_factory=StructureChecks)
    """Tells which schemas of tools can be followed."""


@dataclass(slots=True)
class Models:
    """The models by name. Empty until loading is done; `problem` says why, where it failed."""

    language: LanguageModel | None = None
    embedding: EmbeddingModel | None = None
    expected: tuple[str, ...] = ()
    """Names that will be served once loading is done."""
    created: int = field(default_factory=lambda: int(time.time()))

    def unready_reason(self) -> str | None:
        """Why a request would fail now; None when every model answers."""
        for name in self.expected:
            if self._find(name) is None:
                return f"{name} is loading"
        if self.language is not None and not self.language.engine.is_ready():
            return f"the engine of {self.language.name} isn't making progress"
        if self.embedding is not None and not self.embedding.is_ready():
            return f"the worker of {self.embedding.name} isn't ready"
        return None

    def names(self) -> list[str]:
        return [model.name for model in (self.language, self.embedding) if model is not None]

    def get_language(self, name: str) -> LanguageModel:
        """The language model called `name`.

        Raises:
            ModelNotFound: No model of that name generates text here.
            EngineUnavailable: It is still loading.
        """
        if self.language is not None and self.language.name == name:
            return self.language
        raise self._absent(name, "language")

    def get_embedding(self, name: str) -> EmbeddingModel:
        """The embedding model called `name`; raises as `get_language` does."""
        if self.embedding is not None and self.embedding.name == name:
            return self.embedding
        raise self._absent(name, "embedding")

    def _find(self, name: str) -> LanguageModel | EmbeddingModel | None:
        return next((m for m in (self.language, self.embedding) if m is not None and m.name == name), None)

    def _absent(self, name: str, kind: str) -> ModelNotFound | EngineUnavailable:
        if name in self.expected and self._find(name) is None:
            return EngineUnavailable(f"The model {name} is still loading.")
        loaded = self.language if kind == "language" else self.embedding
        return ModelNotFound(name, [] if loaded is None else [loaded.name])
