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
    asked = next(turn.content for turn in reversed(history) if turn.role == "user")[-MAX_TURN_CHARS:]
    answered = next((turn.content for turn in reversed(history) if turn.role == "assistant"), "")[:MAX_TURN_CHARS]
    options = CompletionOptions(max_tokens=MAX_TOKENS, stop=("\n",), timeout_s=TIMEOUT_S)
    text, usage = "", TokenUsage()
    async with aclosing(llm.stream(_messages(asked, answered, question), options)) as chunks:
        async for chunk in chunks:
            text += chunk.text
            usage = chunk.usage or usage
    rewrite = text.strip().strip('"“”')
    return (rewrite if is_faithful(rewrite, question, f"{asked}\n{answered}") else None), usage


def is_faithful(rewrite: str, question: str, before: str) -> bool:
    """Whether a rewrite keeps what the question says, adds only what was said before, and stands by itself."""
    kept, said = key_terms(question), said_terms(rewrite)
    stands = rewrite.endswith(("?", "？")) and bool(said - kept) and not leans(rewrite)
    return stands and kept <= said <= said_terms(f"{question}\n{before}")


def _messages(asked: str, answered: str, question: str) -> list[Message]:
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
    return prompt("follow_up_user").substitute(asked=asked, answered=answered, question=question)
