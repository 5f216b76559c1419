"""How routes reach the context."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from readahead_platform.gateway.context import GatewayContext


def _context(request: Request) -> GatewayContext:
    context: GatewayContext = request.app.state.context
    return context


Context = Annotated[GatewayContext, Depends(_context)]
"""The parts that the gateway was built from."""
