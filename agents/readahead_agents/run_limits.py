"""What one run may spend, where its caller wants less than the settings allow."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from readahead_agents.settings import AgentSettings


class RunLimits(BaseModel):
    """None takes the settings' own limit, which is also the highest."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    max_steps: int | None = Field(default=None, ge=1)
    """Actions in a plan."""
    max_tool_calls: int | None = Field(default=None, ge=1)
    """Tool calls in all."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Seconds; waiting for somebody's approval does not count."""
    max_llm_tokens: int | None = Field(default=None, ge=1)
    """Prompt and completion tokens."""

    def too_high(self, settings: AgentSettings) -> str | None:
        """The name of a limit that is over the settings' own; None where all are within."""
        return next((name for name, wanted in self._wanted().items() if wanted > getattr(settings, name)), None)

    def applied(self, settings: AgentSettings) -> AgentSettings:
        """The settings of one run: of each limit the lower."""
        lower = {name: min(wanted, getattr(settings, name)) for name, wanted in self._wanted().items()}
        return settings.model_copy(update=lower)

    def _wanted(self) -> dict[str, float]:
        wanted: dict[str, float] = self.model_dump(exclude_none=True)
        return wanted


NO_LIMITS = RunLimits()
