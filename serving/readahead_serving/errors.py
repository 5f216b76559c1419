"""The package's errors.

ServingError
├── UserError                     the caller can mend it; carries OpenAI's `param` and `code`
│   ├── RequestRefused            a value the model or engine can never serve
│   │   ├── ContextLengthExceeded the prompt, with the completion asked for, is over the window
│   │   └── PackTooLarge          a pack leaves no room for a question in the window
│   ├── ModelNotFound             no model of that name
│   └── PackNotFound              no pack of that id
├── EngineBusy                    the queue is full: retry after a while
├── EngineUnavailable             the engine is starting, has died or is draining: retry
├── DeadlineExceeded              the request's own deadline passed before it was done
├── GenerationFailed              the engine gave one request up; others are unharmed
├── CannotListen                  the server's address can't be had
├── BenchFailed                   a benchmark can't run, or measured nothing
│   └── PeerAbsent                another server can't be had on this machine
├── KernelsUnavailable            the compiled kernels can't be had here: PyTorch computes instead
└── ModelLoadError                a model's files are missing, damaged or of an unknown kind
"""

from __future__ import annotations


class ServingError(Exception):
    """Root of this package's errors."""


class UserError(ServingError):
    """A request that its sender can mend.

    Args:
        message: Names the value and the mend.
        param: The request field at fault, as OpenAI's envelope names it.
        code: A stable snake_case word for programs.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


class RequestRefused(UserError):
    """A value that the model or the engine can never serve."""


class ContextLengthExceeded(RequestRefused):
    """The prompt, with the completion asked for, does not fit the model's window.

    Args:
        limit: The window's tokens.
        prompt_tokens: The prompt's; what it has at least, where it is too long to be counted.
        completion_tokens: What was asked for.
        param: The field that holds the prompt.
        counted: Whether `prompt_tokens` is exact.
    """

    def __init__(
        self,
        *,
        limit: int,
        prompt_tokens: int,
        completion_tokens: int,
        param: str = "messages",
        counted: bool = True,
    ) -> None:
        least = "" if counted else "at least "
        super().__init__(
            f"This model's maximum context length is {limit} tokens. However, you requested {least}"
            f"{prompt_tokens + completion_tokens} tokens ({least}{prompt_tokens} in the {param}, {completion_tokens} "
            f"in the completion). Please reduce the length of the {param} or completion.",
            param=param,
            code="context_length_exceeded",
        )


class PackTooLarge(RequestRefused):
    """A pack of so many tokens leaves no room for a question in the model's window."""

    def __init__(self, tokens: int, window: int) -> None:
        super().__init__(
            f"The pack takes {tokens} tokens, but the model's window of {window} tokens has to hold it and a question.",
            param="messages",
            code="context_length_exceeded",
        )


class ModelNotFound(UserError):
    """No model of that name is served here."""

    def __init__(self, name: str, available: list[str]) -> None:
        super().__init__(
            f"The model {name!r} does not exist. Available: {', '.join(available) or 'none'}.",
            param="model",
            code="model_not_found",
        )


class PackNotFound(UserError):
    """No pack of that id is the sender's."""

    def __init__(self, pack_id: str) -> None:
        super().__init__(f"There is no pack {pack_id!r}.", param="pack", code="pack_not_found")


class EngineBusy(ServingError):
    """The queue is full; `retry_after_s` is the predicted wait in seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EngineUnavailable(ServingError):
    """The engine is starting, has died or is draining; `retry_after_s` says when to ask again."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlineExceeded(ServingError):
    """The request's own deadline passed before its completion was done."""


class GenerationFailed(ServingError):
    """The engine gave one request up; others are unharmed."""


class CannotListen(ServingError):
    """The server's address can't be had: it is in use or not ours."""


class KernelsUnavailable(ServingError):
    """The compiled kernels can't be had on this machine; the message says why."""


class BenchFailed(ServingError):
    """A benchmark can't run, or measured nothing."""


class PeerAbsent(BenchFailed):
    """Another server can't be installed, built or started here; a comparison goes on without it."""


class ModelLoadError(ServingError):
    """A model's files are missing, damaged or of a kind that no backend reads."""
