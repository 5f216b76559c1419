"""Synthetic vectors with the neighbour structure of texts, for indexes larger than any collection at hand.

Subjects within fields: 300 fields, 60 subjects in each, whose sizes follow a power law (Pareto, 1.2), so that some
hold thousands of passages and most a few. A vector is field + 0.7 subject + 0.6 passage + 0.2 noise; all but the noise
have a spectrum that falls like 1/sqrt(i), turned at random, so that few directions carry most of the variance, as in
vectors of language. Queries come from the same mixture and are in no index. At 100,000 vectors the nearest neighbour
has a cosine of 0.84 on average, the tenth one of 0.78, and a stranger of 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from readahead_retrieval.embedding import Vectors

FIELDS, SUBJECTS = 300, 60
SUBJECT_SHARE, PASSAGE_SHARE, NOISE_SHARE = 0.7, 0.6, 0.2
BATCH = 20_000


class Mixture:
    """The same vectors for the same seed, in batches."""

    def __init__(self, dimension: int = 384, seed: int = 7) -> None:
        random = np.random.default_rng(seed)
        self.dimension = dimension
        self._seed = seed
        falling = (1 + np.arange(dimension)) ** -0.5
        self._spectrum = (falling / np.linalg.norm(falling)).astype(np.float32)
        self._turn = np.linalg.qr(random.normal(size=(dimension, dimension)))[0].astype(np.float32)
        fields = self._spread(random, FIELDS)
        within = SUBJECT_SHARE * self._spread(random, FIELDS * SUBJECTS)
        self._subjects = np.repeat(fields, SUBJECTS, axis=0) + within
        sizes = random.pareto(1.2, FIELDS * SUBJECTS) + 0.05
        self._sizes = sizes / sizes.sum()

    def batches(self, count: int, stream: int = 1) -> Iterator[Vectors]:
        """Unit rows, `count` in all; another stream gives others."""
        random = np.random.default_rng([self._seed, stream])
        for start in range(0, count, BATCH):
            size = min(BATCH, count - start)
            chosen = self._subjects[random.choice(len(self._subjects), size, p=self._sizes)]
            noise = random.standard_normal((size, self.dimension), dtype=np.float32) / np.float32(self.dimension**0.5)
            vectors = chosen + PASSAGE_SHARE * self._spread(random, size) + NOISE_SHARE * noise
            turned: Vectors = vectors @ self._turn
            turned /= np.linalg.norm(turned, axis=1, keepdims=True)
            yield turned

    def _spread(self, random: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
        return random.standard_normal((count, self.dimension), dtype=np.float32) * self._spectrum
