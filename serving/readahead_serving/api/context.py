"""What every handler works with."""

from __future__ import annotations

from dataclasses import dataclass

from readahead_serving.api.drain import Drain
from readahead_serving.api.models import Models
from readahead_serving.metrics import ServingMetrics
from readahead_serving.settings import ServingSettings


@dataclass(frozen=True, slots=True)
class ServerContext:
    """One app's settings, models, metrics and end."""

    settings: ServingSettings
    models: Models
    metrics: ServingMetrics
    drain: Drain
