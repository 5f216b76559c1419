"""The two ports of a service: the gateway's, taken before anything slow begins, and the LLM server's."""

from __future__ import annotations

import socket

from readahead_platform.errors import StartError
from readahead_platform.settings import LoadedSettings, Settings

_BACKLOG = 2048


def bind_gateway(host: str, port: int) -> socket.socket:
    """Takes the port before anything slow begins. Who connects early waits until the gateway answers.

    Raises:
        StartError: It is not to be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once (TCP_NODELAY) only where the protocol is said; else each waits 40 ms.
    gateway_socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    gateway_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        gateway_socket.bind((host, port))
        gateway_socket.listen(_BACKLOG)  # two may bind one port; only one may listen
    except OSError as error:
        gateway_socket.close()
        reason = error.strerror or str(error)
        raise StartError(
            f"Cannot listen on {host}:{port} ({reason}); stop what listens there, or choose another --port."
        ) from error
    return gateway_socket


def with_llm_port(loaded: LoadedSettings) -> Settings:
    """A declared port is kept; otherwise any free one does, so that two services do not meet."""
    settings = loaded.settings
    if not loaded.is_default("serving.port"):
        return settings
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return settings.model_copy(update={"serving": settings.serving.model_copy(update={"port": port})})
