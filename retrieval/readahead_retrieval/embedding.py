"""The seam between retrieval and whatever turns text into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors.

    The contract: row i belongs to text i; rows have length 1, so that an inner product is a cosine; the same text gives
    the same row up to rounding, whatever stands beside it in the batch. Raises `EmbedderUnavailable` when the service
    behind it does not answer.
    """

    @property
    def model_id(self) -> str:
        """Name and revision: an index made by one model is never searched with another."""
        ...

    @property
    def dimension(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """The model's window: text beyond it would be ignored."""
        ...

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        """Returns an array of shape (len(texts), dimension)."""
        ...
