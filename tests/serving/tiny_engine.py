"""The engine without its process over a tiny random model in float32: everything real, in milliseconds."""

from __future__ import annotations

import itertools
import random
from typing import Any

import torch
from torch import Tensor

from readahead_serving.engine.core import EngineCore
from readahead_serving.engine.executor import Executor
from readahead_serving.engine.grammar import Constraint
from readahead_serving.engine.kv.cache import KVCache
from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.kv.prefix_tree import PrefixTree
from readahead_serving.engine.kv.storage import KVStorage
from readahead_serving.engine.messages import SequenceOutput
from readahead_serving.engine.pack_builds import PackBuilds
from readahead_serving.engine.request import GenerationRequest, SamplingParams, TokenLogprobs
from readahead_serving.engine.scheduler.loop import Scheduler
from readahead_serving.engine.scheduler.plan import StepPlan
from readahead_serving.model.config import ModelConfig
from readahead_serving.model.decoder import Decoder, DecoderWeights, LayerWeights
from readahead_serving.model.embedding import EmbeddingTable
from readahead_serving.model.linear import PlainLinear

CONFIG = ModelConfig(
    family="llama",
    vocab_size=97,
    hidden_size=32,
    intermediate_size=48,
    num_layers=2,
    num_heads=6,
    num_kv_heads=2,
    head_dim=8,
    max_positions=4096,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
)


def matrix(rows: int, columns: int) -> PlainLinear:
    return PlainLinear(torch.randn(rows, columns) / columns**0.5, None)


def random_decoder() -> Decoder:
    torch.manual_seed(0)
    hidden, inner, heads = CONFIG.hidden_size, CONFIG.intermediate_size, sum(CONFIG.qkv_sizes)
    layers = tuple(
        LayerWeights(
            attention_norm=torch.ones(hidden),
            qkv=matrix(heads, hidden),
            output=matrix(hidden, CONFIG.qkv_sizes[0]),
            mlp_norm=torch.ones(hidden),
            gate_up=matrix(2 * inner, hidden),
            down=matrix(hidden, inner),
        )
        for _ in range(CONFIG.num_layers)
    )
    embedding = torch.randn(CONFIG.vocab_size, hidden)
    head = matrix(CONFIG.vocab_size, hidden)
    return Decoder(
        CONFIG, DecoderWeights(embedding=EmbeddingTable(embedding), layers=layers, norm=torch.ones(hidden), head=head)
    )


class CountingExecutor(Executor):
    """Counts the tokens that go through the model, and the rows of logits of the step that has most."""

    computed = 0
    most_rows = 0

    def execute(self, plan: StepPlan) -> Tensor:
        self.computed += plan.num_tokens
        logits = super().execute(plan)
        self.most_rows = max(self.most_rows, len(logits))
        return logits


def unconstrained(sampling: SamplingParams) -> Constraint | None:
    return None


class TinyEngine:
    """Requests by name; greedy and 8 tokens unless said otherwise."""

    def __init__(
        self, decoder: Decoder, *, blocks: int = 64, block: int = 32, chunk: int = 64, reuse: bool = True, most: int = 8
    ) -> None:
        self.pool = BlockPool(blocks, block)
        self.storage = KVStorage(
            num_layers=CONFIG.num_layers,
            num_kv_heads=CONFIG.num_kv_heads,
            head_dim=CONFIG.head_dim,
            dtype=torch.float32,
            num_blocks=blocks,
            block_tokens=block,
        )
        self.executor = CountingExecutor(decoder, self.storage)
        self.cache = KVCache(self.pool, PrefixTree(self.pool) if reuse else None)
        self.scheduler = Scheduler(self.cache, max_running=most, prefill_chunk_tokens=chunk)
        builds = PackBuilds(self.executor.lay_out)
        self.core = EngineCore(self.executor, self.pool, self.scheduler, unconstrained, [], builds=builds)
        self.tokens: dict[str, list[int]] = {}
        self.told: dict[str, list[TokenLogprobs]] = {}
        """Log probabilities of prompts, for requests that ask for them."""
        self.cached: dict[str, int] = {}
        self.ends: dict[str, SequenceOutput] = {}
        self._names = itertools.count()

    def add(self, prompt: list[int], *, salt: str = "", **sampling: Any) -> str:
        name = f"request-{next(self._names)}"
        values: dict[str, Any] = {"max_tokens": 8, "temperature": 0} | sampling
        self.tokens[name] = []
        self.core.add(
            GenerationRequest(request_id=name, prompt_tokens=prompt, sampling=SamplingParams(**values), salt=salt)
        )
        return name

    def step(self) -> None:
        self.core.step()
        self.scheduler.check_integrity()
        for output in self.core.take_outputs():
            self.tokens.setdefault(output.request_id, []).extend(output.token_ids)
            self.told.setdefault(output.request_id, []).extend(output.prompt_logprobs)
            if output.cached_tokens is not None:
                self.cached[output.request_id] = output.cached_tokens
            if output.finish_reason is not None:
                self.ends[output.request_id] = output

    def run(self) -> None:
        """Steps until nothing is left to do."""
        while self.core.has_work:
            self.step()
        self.step()

    def complete(self, prompt: list[int], *, salt: str = "", **sampling: Any) -> list[int]:
        name = self.add(prompt, salt=salt, **sampling)
        self.run()
        return self.tokens[name]

    def build(self, pack_id: str, tokens: list[int], *, salt: str = "") -> PackKV:
        self.core.build_pack(pack_id, salt, tokens)
        self.run()
        assert self.ends[pack_id].finish_reason == "length", self.ends[pack_id]
        return self.core.export_pack(pack_id)


def text(seed: int, tokens: int) -> list[int]:
    """The same random tokens for the same seed."""
    return random.Random(seed).choices(range(CONFIG.vocab_size), k=tokens)
