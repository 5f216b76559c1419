"""The command line's view of the gateway: plain HTTP, errors as one line."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from readahead_platform.credentials import read_credentials
from readahead_platform.errors import CommandFailed, CommandRefused
from readahead_platform.settings import Settings, read_settings

_TIMEOUT = httpx.Timeout(120.0, connect=5.0)
"""Of silence: a stream's heartbeats keep it alive however long the answer takes."""


class _Fields(dict[str, Any]):
    """A JSON object of an answer; a field that is not there means that something else answered."""

    def __missing__(self, key: str) -> Any:
        raise CommandFailed(f"The answer has no {key!r}; is this a Readahead server of this version?", "not_ours")


class GatewayClient:
    """Speaks to READAHEAD_URL with READAHEAD_API_KEY, or with the key that `readahead up` left on this machine."""

    def __init__(self, settings: Settings) -> None:
        key = _usable(settings.api_key or read_credentials(settings.home) or "")
        self._url = settings.client_url
        if not self._url.startswith(("http://", "https://")):
            raise CommandFailed(
                f"The server's address {self._url!r} begins with neither http:// nor https://.", "bad_url"
            )
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

    def entries(self, path: str, **query: str | int) -> list[dict[str, Any]]:
        """The entries of a list."""
        return _entries(self.get(path, **query))

    def found(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The entries that a search finds."""
        return _entries(self.post(path, body))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._request("POST", path, json=body)

    def delete(self, path: str) -> dict[str, Any]:
        return self._request("DELETE", path)

    def upload(self, path: Path) -> dict[str, Any]:
        """Sends a file as it is read from disk.

        Raises:
            CommandRefused: The file cannot be read, or the server does not take it.
        """
        name = os.fsencode(path.name).decode("utf-8", "replace")
        try:
            with path.open("rb") as file:
                return self._request("POST", "/v1/files", files={"file": (name, file)}, data={"purpose": "assistants"})
        except OSError as error:
            raise CommandRefused(f"{path} cannot be read: {error.strerror or error}.", "unreadable_file") from error

    def stream_chat(self, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The chunks of a streamed chat completion; raises as `stream`."""
        return self.stream("/v1/chat/completions", body)

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The objects of a stream.

        Raises:
            CommandFailed: The gateway refused, or ended the stream with an error.
        """
        with (
            self._reaching_it(),
            self._http.stream("POST", path, json={**body, "stream": True}) as response,
        ):
            if response.status_code != 200:
                response.read()
                raise _failure(response)
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise _not_ours(response)
            for line in response.iter_lines():
                data = line.removeprefix("data:").strip()
                if not line.startswith("data:") or data == "[DONE]":
                    continue
                chunk = _object(response, data)
                if "error" in chunk:
                    raise CommandFailed(str(chunk["error"]["message"]), chunk["error"]["code"] or "failed")
                yield chunk

    def _request(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        with self._reaching_it():
            response = self._http.request(method, path, **options)
        if response.status_code >= 400:
            raise _failure(response)
        return _object(response, response.text)

    @contextlib.contextmanager
    def _reaching_it(self) -> Iterator[None]:
        try:
            yield
        except httpx.ConnectError as error:
            message = f"No Readahead server answers at {self._url}; start one with `readahead up`."
            raise CommandFailed(message, "no_server") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CommandFailed(f"The server at {self._url} broke off: {error}.", "connection_failed") from error


def _usable(key: str) -> str:
    """The key without the spaces and line ends that copying adds.

    Raises:
        CommandFailed: It cannot be a key; it is not shown.
    """
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise CommandFailed("The API key holds characters that no key has; copy it once more.", "bad_key")
    return key


def _object(response: httpx.Response, text: str) -> dict[str, Any]:
    try:
        answer = json.loads(text, object_hook=_Fields)
    except ValueError as error:
        raise _not_ours(response) from error
    if not isinstance(answer, dict):
        raise _not_ours(response)
    return answer


def _entries(answer: dict[str, Any]) -> list[dict[str, Any]]:
    entries = answer["data"]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CommandFailed("The answer holds no list; is this a Readahead server of this version?", "not_ours")
    return entries


def _not_ours(response: httpx.Response) -> CommandFailed:
    """Whatever else answers there: a proxy, a router's page, another program."""
    return CommandFailed(f"{response.url} answered {response.status_code}; is this a Readahead server?", "not_ours")


def _failure(response: httpx.Response) -> CommandFailed:
    try:
        error = response.json()["error"]
        message, code = str(error["message"]), str(error["code"] or "failed")
    except (ValueError, KeyError, TypeError):
        return _not_ours(response)
    if response.status_code == 401:
        message += " The command line takes it from READAHEAD_API_KEY, else from credentials.json in READAHEAD_HOME."
        return CommandFailed(message, code)
    return CommandRefused(message, code) if response.status_code < 500 else CommandFailed(message, code)
