"""An external MCP server, as an operator configures it."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator


class McpServerSettings(BaseModel):
    """One entry of `[[agents.mcp_servers]]`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,19}$")
    """Stands before its tools' names, so that those of two servers never collide."""
    command: str | None = None
    """A program that speaks MCP on standard input and output."""
    args: tuple[str, ...] = ()
    env: dict[str, SecretStr] = Field(default_factory=dict)
    """Variables of the program, beside a minimal environment."""
    url: str | None = Field(default=None, pattern=r"^https?://")
    """A server that speaks streamable HTTP."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    connect_s: float = Field(default=10.0, gt=0, le=120)
    """Seconds in which it must be there; a run goes on without it."""
    silence_s: float = Field(default=60.0, gt=0, le=3600)
    """Seconds that a call may take without telling progress."""
    call_s: float = Field(default=300.0, gt=0, le=7200)
    """Seconds that a call may take in all."""
    allow: tuple[str, ...] | None = None
    """Only these tools, by the server's own names; all where it is left out."""
    deny: tuple[str, ...] = ()
    """Never these tools."""
    approved: tuple[str, ...] = ()
    """Tools that are not marked read-only and may be called all the same. Documents are untrusted text: approve only
    what may happen at anybody's word."""

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError(f"the MCP server {self.name!r} needs either `command` or `url`")
        return self
