"""The package's errors.

AgentError
├── LanguageModelError            the model behind the OpenAI API failed
│   ├── LanguageModelUnavailable  it does not answer, or asks to come back later: retry
│   └── LanguageModelRefused      it refused the request: `code` is the API's (context_length_exceeded, …)
├── ToolsetUnavailable            a tool server cannot be reached, or breaks the protocol
├── PlanInvalid                   a plan that does not fit the tools there are
├── BudgetExceeded                a run went over its seconds, tokens or tool calls
├── RunNotFound                   no such run for this tenant
├── TooManyRuns                   as many runs are going as are allowed: retry
├── AlreadyDecided                a call that waited for the client's word has it already
├── ConversationNotFound          no such conversation, or no such item in it, for this tenant
├── ConversationFull              a conversation holds as much as is allowed
└── ItemExists                    a conversation has an item of that id already
"""

from __future__ import annotations


class AgentError(Exception):
    """Root of this package's errors."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class LanguageModelError(AgentError):
    """The model behind the OpenAI API failed."""


class LanguageModelUnavailable(LanguageModelError):
    """The model does not answer, or asks to come back after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LanguageModelRefused(LanguageModelError):
    """The model's server refused the request; `status`, `code` and `param` are its own."""

    def __init__(self, message: str, *, status: int, code: str | None, param: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param


class ToolsetUnavailable(AgentError):
    """A tool server cannot be reached, or breaks the protocol; a tool that ran and failed is no error but a result."""


class PlanInvalid(AgentError):
    """A plan that does not fit the tools there are."""


class BudgetExceeded(AgentError):
    """A run went over its seconds, tokens or tool calls; `limit` names which."""

    def __init__(self, message: str, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class RunNotFound(AgentError):
    """No such run for this tenant; what belongs to another tenant is not found either."""

    def __init__(self, run_id: str, kind: str = "run") -> None:
        super().__init__(f"No {kind} {run_id!r} was found.")


class TooManyRuns(AgentError):
    """As many runs are going as are allowed."""

    def __init__(self, running: int) -> None:
        super().__init__(f"Too many runs are going ({running} of yours); wait for one to end, or cancel one.")


class AlreadyDecided(AgentError):
    """A call that waited for the client's word has it already."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"The approval request {request_id!r} was decided before; each is decided once.")


class ConversationNotFound(AgentError):
    """No such conversation for this tenant, or no such item in it; `item_id` names the item."""

    def __init__(self, conversation_id: str, item_id: str | None = None) -> None:
        missing = f"conversation {conversation_id!r}"
        missing = missing if item_id is None else f"item {item_id!r} in the {missing}"
        super().__init__(f"No {missing} was found.")


class ConversationFull(AgentError):
    """A conversation holds as many items, or as much text, as is allowed."""


class ItemExists(AgentError):
    """A conversation has an item of that id already."""

    def __init__(self, conversation_id: str, item_id: str) -> None:
        super().__init__(f"The conversation {conversation_id!r} has an item {item_id!r} already; leave it out.")
