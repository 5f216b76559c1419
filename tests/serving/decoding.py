"""Greedy decoding of one sequence, in the plainest way."""

from __future__ import annotations

import torch
from torch import Tensor

from readahead_serving.model.decoder import Decoder
from readahead_serving.model.reference_attention import ReferenceAttention


def all_logits(decoder: Decoder, token_ids: list[int]) -> Tensor:
    """The logits after every token, (T, vocab)."""
    positions = torch.arange(len(token_ids))
    return decoder.forward(torch.tensor(token_ids), positions, ReferenceAttention(), positions)


def decode_greedily(decoder: Decoder, prompt: list[int], tokens: int) -> list[int]:
    """The `tokens` likeliest next tokens, whatever ends a text."""
    attention = ReferenceAttention()
    new, position, chosen = prompt, 0, list[int]()
    for _ in range(tokens):
        positions = torch.arange(position, position + len(new))
        logits = decoder.forward(torch.tensor(new), positions, attention, torch.tensor([len(new) - 1]))
        position += len(new)
        new = [int(logits[0].argmax())]
        chosen += new
    return chosen
