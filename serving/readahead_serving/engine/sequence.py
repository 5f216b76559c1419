"""One running completion."""

from __future__ import annotations

from dataclasses import dataclass, field

from readahead_serving.engine.kv.pack_table import PackReading
from readahead_serving.engine.kv.prefix_tree import Node
from readahead_serving.engine.request import GenerationRequest


@dataclass(eq=False, slots=True)
class Sequence:
    """A request's tokens and how far the model has come with them.

    There are no phases: each step lets `num_computed` catch up with `num_tokens`. A new prompt, a preempted sequence
    and a run of forced tokens differ only in how far they lie behind.
    """

    request: GenerationRequest
    token_ids: list[int] = field(default_factory=list)
    """Prompt and completion."""
    num_computed: int = 0
    """Leading tokens whose keys and values lie in the cache."""
    blocks: list[int] = field(default_factory=list)
    """Blocks of the KV pool that hold this sequence from `own_start` on, in order."""
    pack: PackReading | None = None
    """The pack that holds its first tokens, if one does, and how many of them."""
    nodes: list[Node] = field(default_factory=list)
    """The leading blocks that lie in the prefix tree, where others may read them too."""
    root_key: bytes = b""
    """The tree's root that its blocks stand under."""
    num_cached: int | None = None
    """Prompt tokens that were taken over instead of computed when it first started; None before."""
    draft: list[int] = field(default_factory=list)
    """Tokens proposed to follow all others, for one step to confirm; set before the step is planned."""
    preemptions: int = 0
    is_started: bool = False
    """Whether its first step has begun."""
    rank: int = 0
    """Place among all sequences: the order of arrival, shifted by priority. The lowest goes first; set on arrival."""
    num_expected: int = 0
    """Leading tokens expected to be taken over from the cache once this sequence is admitted, as known on arrival."""
    prompt_told: int = 0
    """Leading prompt tokens whose rows have told the log probability of the token behind them, where that is wanted."""
    prompt_computed: int = 0
    """Prompt tokens already counted as computed, so that a recomputation is not counted as prompt again."""

    def __post_init__(self) -> None:
        assert not self.token_ids
        self.token_ids = list(self.request.prompt_tokens)

    @property
    def request_id(self) -> str:
        return self.request.request_id

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_prompt(self) -> int:
        return len(self.request.prompt_tokens)

    @property
    def own_start(self) -> int:
        """Position of the first token that lies in `blocks`: all before it lie in the pack."""
        return self.pack.num_tokens if self.pack is not None else 0

    @property
    def is_build(self) -> bool:
        """Whether nothing but its KV is wanted: it builds a pack and steps aside for whoever needs room."""
        return self.request.sampling.max_tokens == 0

    @property
    def wants_prompt_told(self) -> bool:
        """Whether log probabilities of its prompt are still wanted: then nothing of it can be taken over."""
        return self.request.sampling.prompt_logprobs and self.prompt_told < self.num_prompt - 1

    @property
    def num_completion(self) -> int:
        return self.num_tokens - self.num_prompt

    @property
    def num_pending(self) -> int:
        """Tokens still to compute; the next token can be sampled once they are."""
        return self.num_tokens - self.num_computed

    @property
    def num_wanted(self) -> int:
        """Completion tokens that the request still allows."""
        return self.request.sampling.max_tokens - self.num_completion
