"""Packs in /metrics, read from the shelf when they are scraped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from readahead_serving.packs.record import PackState
from readahead_serving.packs.shelf import PackShelf


class PackMetrics(Collector):
    """Registers itself; shows nothing while there is no shelf."""

    def __init__(self, registry: CollectorRegistry, shelf: Callable[[], PackShelf | None]) -> None:
        self._shelf = shelf
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        shelf = self._shelf()
        if shelf is None:
            return
        records = shelf.everybodys()
        states = Counter(record.state for record in records)
        by_state = GaugeMetricFamily("readahead_packs", "Packs by state.", labels=["state"])
        for state in PackState:
            by_state.add_metric([state.value], states[state])
        yield by_state
        yield GaugeMetricFamily("readahead_pack_memory_bytes", "Bytes of packs in memory.", shelf.memory_bytes)
        yield GaugeMetricFamily("readahead_pack_disk_bytes", "Bytes of packs on disk.", shelf.disk_bytes)
        yield GaugeMetricFamily("readahead_pack_pinned_bytes", "Bytes of pinned packs.", shelf.pinned_bytes)
        yield CounterMetricFamily("readahead_pack_hits", "Requests that read a pack.", shelf.counts.hits)
        misses = CounterMetricFamily("readahead_pack_misses", "Requests that read none, by why.", labels=["reason"])
        for reason, count in shelf.counts.misses.items():
            misses.add_metric([reason], count)
        yield misses
