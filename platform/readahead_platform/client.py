"""The command line's view of the gateway: plain HTTP, errors as one line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from readahead_platform.credentials import read_credentials
from readahead_platform.errors import CommandFailed
from readahead_platform.settings import Settings, read_settings

_TIMEOUT = httpx.Timeout(120.0, connect=5.0)
"""Of silence: a stream's heartbeats keep it alive however long the answer takes."""


class GatewayClient:
    """Speaks to READAHEAD_URL with READAHEAD_API_KEY, or with the key that `readahead up` left on this machine."""

    def __init__(self, settings: Settings) -> None:
        key = settings.api_key or read_credentials(settings.home)
        self._url = settings.client_url
        self._http = httpx.Client(
            base_url=self._url, timeout=_TIMEOUT, headers={"Authorization": f"Bearer {key}"} if key else {}
        )

    @classmethod
    @contextlib.contextmanager
    def open(cls) -> Iterator[GatewayClient]:
        """A client by the settings in force."""
        client = cls(read_settings().settings)
        try:
            yield client
        finally:
            client._http.close()

    def get(self, path: str, **query: str | int) -> dict[str, Any]:
        return self._request("GET", path, params=query)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._request("POST", path, json=body)

    def delete(self, path: str) -> dict[str, Any]:
        return self._request("DELETE", path)

    def upload(self, path: Path) -> dict[str, Any]:
        """Sends a file as it is read from disk."""
        try:
            with path.open("rb") as file:
                return self._request(
                    "POST", "/v1/files", files={"file": (path.name, file)}, data={"purpose": "assistants"}
                )
        except OSError as error:
            raise CommandFailed(f"{path} cannot be read: {error.strerror or error}.", "unreadable_file") from error

    def stream_chat(self, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The chunks of a streamed chat completion.

        Raises:
            CommandFailed: The gateway refused, or ended the stream with an error.
        """
        with (
            self._reaching_it(),
            self._http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as response,
        ):
            if response.status_code != 200:
                response.read()
                raise _failure(response)
            for line in response.iter_lines():
                data = line.removeprefix("data:").strip()
                if not line.startswith("data:") or data == "[DONE]":
                    continue
                chunk: dict[str, Any] = json.loads(data)
                if "error" in chunk:
                    raise CommandFailed(chunk["error"]["message"], chunk["error"]["code"] or "failed")
                yield chunk

    def _request(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        with self._reaching_it():
            response = self._http.request(method, path, **options)
        if response.status_code >= 400:
            raise _failure(response)
        answer: dict[str, Any] = response.json()
        return answer

    @contextlib.contextmanager
    def _reaching_it(self) -> Iterator[None]:
        try:
            yield
        except httpx.ConnectError as error:
            message = f"No Readahead server answers at {self._url}; start one with `readahead up`."
            raise CommandFailed(message, "no_server") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CommandFailed(f"The server at {self._url} broke off: {error}.", "connection_failed") from error


def _failure(response: httpx.Response) -> CommandFailed:
    try:
        error = response.json()["error"]
        message, code = str(error["message"]), str(error["code"] or "failed")
    except (ValueError, KeyError, TypeError):
        return CommandFailed(f"{response.url} answered {response.status_code}; is this a Readahead server?", "not_ours")
    if response.status_code == 401:
        message += " The command line takes it from READAHEAD_API_KEY, else from credentials.json in READAHEAD_HOME."
    return CommandFailed(message, code)
