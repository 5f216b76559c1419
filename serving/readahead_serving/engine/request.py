"""What crosses the line between the API process and the engine process.

Every message is a msgspec struct, encoded as MessagePack: nothing here is ever pickled.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from readahead_serving.engine.scheduler.cost import StepCosts

FinishReason = Literal["stop", "length", "abort", "refused", "error"]
"""The last two end no completion: a request whose grammar proves impossible to follow, and a failure of ours."""
DEADLINE_EXCEEDED = "deadline exceeded"
"""The error of a request that was aborted because its time ran out."""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """How the tokens of one request are chosen."""

    max_tokens: int
    """Completion tokens at most, at least 1."""
    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps every token."""
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    """The same seed gives the same tokens, alone and in a batch."""
    stop: tuple[str, ...] = ()
    """Text that ends the completion and is not part of it."""
    ignore_eos: bool = False
    json_schema: str | None = None
    """A JSON schema, as JSON text, that the completion must satisfy."""
    regex: str | None = None
    """A regular expression that the whole completion must match; at most one of these three is set."""
    grammar: str | None = None
    """A Lark grammar, in llguidance's dialect, that the completion must follow."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Token ids and what is added to their logits."""
    logprobs: int | None = None
    """How many of the likeliest tokens are told beside each chosen one, with their log probabilities; None for none."""
    prompt_logprobs: bool = False
    """Whether the prompt's tokens but the first are told in the same way: no cache is read for it then."""


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One completion to compute. Token ids are checked by the API before they come here."""

    request_id: str
    group: str = ""
    """The call that this is one completion of; empty where it stands alone."""
    prompt_tokens: list[int]
    sampling: SamplingParams
    deadline: float | None = None
    """Unix time after which the engine gives the request up, waiting or running."""
    priority: int = 0
    """Lower goes first, among a tenant's own requests; above 0 behind other tenants' too."""
    salt: str = ""
    """Requests share cached keys and values only with requests of the same salt. Set by the server, never by a body."""


class AbortRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Ends a request within one step, whether it waits, prefills or decodes. Unknown ids are ignored."""

    request_id: str


class PackMiss(msgspec.Struct, frozen=True, kw_only=True):
    """Why a prompt that was meant for a pack does not read it whole."""

    reason: str
    """A stable word: "diverged", the state of a pack that is not ready, or why a ready one could not be loaded."""
    pack_id: str
    shared_tokens: int
    """Leading tokens that the prompt shares with the pack: the next is the first that differs."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that one request has cost so far."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    """Prompt tokens whose keys and values were taken over instead of computed."""
    pack_miss: PackMiss | None = None


class TokenLogprobs(msgspec.Struct, frozen=True, kw_only=True):
    """How likely one token was, by the model's own distribution: before temperature, penalties, bias and grammar."""

    token_id: int
    logprob: float
    top: list[tuple[int, float]]
    """The likeliest tokens with their log probabilities, the likeliest first."""


class GenerationDelta(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What one step added to one request.

    `text` holds whole code points only and never a part of a stop string: the joined deltas are the completion.
    """

    request_id: str
    text: str
    token_ids: list[int]
    usage: Usage
    finish_reason: FinishReason | None = None
    """Set on the last delta of a request, and only there."""
    error: str | None = None
    """Why, when `finish_reason` is "refused" or "error"; "deadline exceeded" beside "abort" when its time ran out."""
    logprobs: list[TokenLogprobs] = []
    """Of the tokens behind the text so far, where the request asked for them; tokens without text are left out."""
    prompt_logprobs: list[TokenLogprobs] = []
    """Of the prompt from its second token on, before any of the completion's, where the request asked for them."""
    queued_s: float | None = None
    """Seconds the request waited for its first step, on its first delta; None where the backend can't tell."""


class EngineStats(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The engine's state after a step, for readiness and /metrics."""

    steps: int
    running: int
    waiting: int
    kv_tokens_used: int
    kv_tokens_total: int
    prompt_tokens_computed: int
    """Prompt tokens that went through the model, since start."""
    completion_tokens: int
    """Tokens generated, since start."""
    aborted: int
    received: int = 0
    """Requests that have come, since start."""
    backlog_s: float = 0.0
    """Predicted seconds until the prompts that wait or prefill now are computed, expected cache hits taken off."""
    costs: StepCosts = StepCosts()
    """What a step's parts take, as measured."""
    integrity_checks: int = 0
    """Times that the idle engine has proved that no KV is lost, since start."""
    preempted: int = 0
    """Times that a running request gave its KV up for one that goes first, since start."""
    kv_tokens_cached: int = 0
    """Tokens of room that hold the KV of requests that have ended; it is given up when needed."""
    prefix_hit_tokens: int = 0
    """Prompt tokens taken over from earlier requests instead of computed, since start."""
    pack_hit_tokens: int = 0
    """Prompt tokens read in a pack instead of computed, since start."""
    resumed_tokens: int = 0
    """Tokens that preempted requests found again in the cache, since start: no hits, for the work was their own."""
    kv_blocks_evicted: int = 0
    """Cached blocks given up for others, since start."""
    pack_bytes: int = 0
    """Bytes of the KV of all packs in memory."""
    draft_tokens: int = 0
    """Tokens proposed by speculation, since start."""
    draft_tokens_accepted: int = 0
    """Those of them that the model confirmed."""
