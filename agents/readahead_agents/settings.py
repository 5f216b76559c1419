"""The agent's settings: one frozen tree, filled once by whoever builds an agent."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from readahead_agents.answering.shown_text import LinkHost
from readahead_agents.mcp.server_settings import McpServerSettings


class AgentSettings(BaseModel):
    """`[agents]` in readahead.toml, `READAHEAD_AGENTS__…` in the environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    max_steps: int = Field(default=4, ge=1, le=32)
    """Actions in a plan at most."""
    parallel_steps: int = Field(default=3, ge=1, le=16)
    """Actions that run side by side."""
    max_tool_calls: int = Field(default=12, ge=1, le=256)
    """Tool calls that one run may make in all, those of later plans and repeated ones too."""
    max_seconds: float = Field(default=180.0, gt=0)
    """Seconds that one run may take; waiting for somebody's approval does not count."""
    approval_s: float = Field(default=300.0, gt=0, le=86_400)
    """Seconds that a call of a tool that is not marked read-only waits for approval; then it is refused."""
    max_llm_tokens: int = Field(default=16_000, ge=1)
    """Prompt and completion tokens that one run may spend."""
    answer_tokens: int = Field(default=256, ge=1)
    """Completion tokens of one answer at most, unless the caller asks for another number."""
    evidence_tokens: int = Field(default=320, ge=64)
    """Prompt tokens that the passages of one question may take; where they take more, the statements nearest to the
    question are shown of them. Small models read little well: raise it to 2000 and more for models over 3B."""
    history_tokens: int = Field(default=512, ge=0)
    """Prompt tokens that the earlier turns of a conversation may take. The newest exchanges go in whole; the others are
    left out, which the answer's notes tell."""
    follow_ups: Literal["rules", "model", "off"] = "rules"
    """How a question that leans on the turns before it ("and in winter?") is made to stand by itself: joined with them
    by rules, rewritten by the model (and by rules where its text says something else), or not at all."""
    temperature: float = Field(default=0.0, ge=0, le=2)
    """Sampling temperature of grounded answers."""
    planning_temperature: float = Field(default=0.1, ge=0, le=0.3)
    """Sampling temperature of plans."""
    seed: int = 7
    """Seed of plans and answers."""
    link_hosts: tuple[LinkHost, ...] = ()
    """Hosts ("wiki.example.org", with its port where it has one) that links and images in the model's sentences may
    lead to; all others are made plain text, and so is every link in a quotation."""
    mcp_servers: tuple[McpServerSettings, ...] = ()
    """External MCP servers, whose tools the agent may use (docs/mcp.md)."""
