"""Log probabilities of a prompt's own tokens, which take a row of logits each instead of one for the whole prompt."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from readahead_serving.engine.request import TokenLogprobs
from readahead_serving.engine.sampling import token_logprobs
from readahead_serving.engine.scheduler.plan import Chunk, StepPlan


def tell_prompts(logits: Tensor, plan: StepPlan) -> Iterator[tuple[Chunk, list[TokenLogprobs]]]:
    """What a step's logits say of the prompt tokens behind its chunks, each told once.

    Args:
        logits: (R, vocab) float32, of each chunk's last `num_rows` tokens, in the plan's order.
        plan: The step's.
    """
    for chunk, part in _split(logits, plan):
        sequence = chunk.sequence
        if not chunk.tells_prompt:
            continue
        # a sequence that was preempted half way computes rows again that have been told
        first = max(chunk.start, sequence.prompt_told)
        last = min(chunk.end, sequence.num_prompt - 1)
        tokens = sequence.token_ids[first + 1 : last + 1]
        top = sequence.request.sampling.logprobs or 0
        yield chunk, token_logprobs(part[first - chunk.start : last - chunk.start], tokens, top)


def rows_to_choose(logits: Tensor, plan: StepPlan) -> Tensor:
    """The rows that next tokens are chosen from, without those that only tell of a prompt."""
    if not any(chunk.tells_prompt for chunk in plan.chunks):
        return logits
    return torch.cat([part[len(part) - chunk.num_choices :] for chunk, part in _split(logits, plan)])


def _split(logits: Tensor, plan: StepPlan) -> Iterator[tuple[Chunk, Tensor]]:
    sizes = [chunk.num_rows for chunk in plan.chunks]
    return zip(plan.chunks, torch.split(logits, sizes), strict=True)
