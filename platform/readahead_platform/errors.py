"""The package's errors.

PlatformError
├── ApiError              answered in OpenAI's envelope with `status`
├── SettingsError         a settings file or variable with an unknown key or a bad value
├── StartError            a part of the service could not be started; the message names the mend
└── CommandFailed         a command could not do what was asked; shown as one line, or as JSON with --json
    └── CommandRefused    the server, or the disk, refused this one thing; others may still be done
"""

from __future__ import annotations

from collections.abc import Mapping


class PlatformError(Exception):
    """Root of this package's errors."""


class ApiError(PlatformError):
    """An HTTP error in OpenAI's envelope.

    Args:
        status: HTTP status. SDKs retry 408, 409, 429 and 5xx: never use them for what cannot succeed later.
        message: Names the value and the mend.
        error_type: OpenAI's error type.
        param: The request field at fault.
        code: A stable snake_case word.
        retry_after_s: Seconds after which a retry may succeed.
        headers: More that the answer says.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        error_type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.error_type = error_type
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s
        self.headers = dict(headers or {})


class SettingsError(PlatformError):
    """An unknown key or a bad value in readahead.toml or the environment."""


class StartError(PlatformError):
    """A part of the service could not be started."""


class CommandFailed(PlatformError):
    """A command could not do what was asked.

    Args:
        message: One line for a person.
        code: A stable snake_case word for a program.
    """

    def __init__(self, message: str, code: str = "failed") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class CommandRefused(CommandFailed):
    """The server, or the disk, refused this one thing; others may still be done."""
