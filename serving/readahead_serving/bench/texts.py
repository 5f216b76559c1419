"""Made-up texts of a wanted length, the same every time."""

from __future__ import annotations

import random

_NOUNS = [
    "river",
    "library",
    "garden",
    "engine",
    "letter",
    "market",
    "bridge",
    "winter",
    "window",
    "teacher",
    "signal",
    "harbour",
]
_VERBS = ["keeps", "finds", "carries", "opens", "repairs", "measures", "follows", "describes", "crosses", "remembers"]
_ADJECTIVES = ["old", "quiet", "small", "bright", "careful", "distant", "heavy", "simple", "early", "green"]
TOKENS_PER_WORD = 1.15
"""Of these words and full stops, by SmolLM2's tokenizer; others differ little. Reports tell the tokens as counted."""


def prose(tokens: int, seed: int) -> str:
    """About `tokens` tokens of plain sentences."""
    dice = random.Random(seed)
    words = 0
    sentences = [f"Record {seed}."]
    while words * TOKENS_PER_WORD < tokens - 4:
        sentence = (
            f"The {dice.choice(_ADJECTIVES)} {dice.choice(_NOUNS)} {dice.choice(_VERBS)} "
            f"the {dice.choice(_ADJECTIVES)} {dice.choice(_NOUNS)} number {dice.randint(10, 99)}."
        )
        sentences.append(sentence)
        words += len(sentence.split()) + 2
    return " ".join(sentences)


def question(seed: int) -> str:
    """One question of about 25 tokens; no two seeds ask the same."""
    dice = random.Random(seed)
    return (
        f"Question {seed}: what does the text say about the {dice.choice(_ADJECTIVES)} {dice.choice(_NOUNS)} "
        f"and the {dice.choice(_NOUNS)}, and where does it say so?"
    )
