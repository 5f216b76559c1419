"""A follow-up question rewritten by the model, and the check that keeps a weak model's inventions out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from readahead_agents.llm.base import CompletionOptions, LanguageModel, Message, TokenUsage
from readahead_agents.memory.follow_up import leans
from readahead_agents.prompts import prompt
from readahead_retrieval.relevance import key_terms, said_terms

MAX_TOKENS = 48
MAX_TURN_CHARS = 400
"""Of each of the two turns that the model is shown."""
TIMEOUT_S = 20.0
_EXAMPLES = (
    ("What is the fee for a small boat?", "It is 14 crowns a night.", "And for a large one?"),
    "What is the fee for a large boat?",
    ("Who wrote the report?", "Dana Ross wrote it.", "When did she finish it?"),
    "When did Dana Ross finish the report?",
)


async def rewritten(llm: LanguageModel, question: str, history: Sequence[Message]) -> tuple[str | None, TokenUsage]:
    """One call of bounded length. None where what came back does not pass `is_faithful`.

    Raises:
        LanguageModelError: The model fails.
    """
    options = CompletionOptions(max_tokens=MAX_TOKENS, stop=("\n",), timeout_s=TIMEOUT_S)
    text, usage = "", TokenUsage()
    async with aclosing(llm.stream(_messages(question, history), options)) as chunks:
        async for chunk in chunks:
            text += chunk.text
            usage = chunk.usage or usage
    rewrite = text.strip().strip('"“”')
    return (rewrite if is_faithful(rewrite, question, history) else None), usage


def is_faithful(rewrite: str, question: str, history: Sequence[Message]) -> bool:
    """Whether a rewrite keeps what the question says, adds only what the conversation said, and stands by itself."""
    kept, said = key_terms(question), said_terms(rewrite)
    of_all = said_terms("\n".join([question, *(turn.content for turn in history)]))
    stands = rewrite.endswith(("?", "？")) and bool(said - kept) and not leans(rewrite)
    return stands and kept <= said <= of_all


def _messages(question: str, history: Sequence[Message]) -> list[Message]:
    asked = next(turn.content for turn in reversed(history) if turn.role == "user")
    answered = next((turn.content for turn in reversed(history) if turn.role == "assistant"), "")
    first, first_rewrite, second, second_rewrite = _EXAMPLES
    return [
        Message("system", prompt("follow_up_system").substitute()),
        Message("user", _shown(*first)),
        Message("assistant", first_rewrite),
        Message("user", _shown(*second)),
        Message("assistant", second_rewrite),
        Message("user", _shown(asked, answered, question)),
    ]


def _shown(asked: str, answered: str, question: str) -> str:
    asked, answered = asked[-MAX_TURN_CHARS:], answered[:MAX_TURN_CHARS]
    return prompt("follow_up_user").substitute(asked=asked, answered=answered, question=question)
