"""The loads that can be run by name."""

from __future__ import annotations

from readahead_serving.bench.summary import Goal
from readahead_serving.bench.workloads.agents import AGENTS
from readahead_serving.bench.workloads.base import Bench, Outcome, Workload
from readahead_serving.bench.workloads.cancel_storm import CANCEL_STORM
from readahead_serving.bench.workloads.chat import CHAT
from readahead_serving.bench.workloads.kb_pressure import KB_PRESSURE
from readahead_serving.bench.workloads.kb_questions import KB_QUESTIONS
from readahead_serving.bench.workloads.long_prefill import LONG_PREFILL
from readahead_serving.bench.workloads.overload import OVERLOAD
from readahead_serving.bench.workloads.pack_restart import PACK_RESTART
from readahead_serving.bench.workloads.quoting import QUOTING

WORKLOADS = {
    workload.name: workload
    for workload in (
        CHAT,
        QUOTING,
        KB_QUESTIONS,
        KB_PRESSURE,
        AGENTS,
        LONG_PREFILL,
        OVERLOAD,
        CANCEL_STORM,
        PACK_RESTART,
    )
}

__all__ = ["WORKLOADS", "Bench", "Goal", "Outcome", "Workload"]
