"""A chat completion's message, whole and as a stream of chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from readahead_serving.api.generation import Generation, total_usage
from readahead_serving.api.logprobs import TokenBytes, chat_logprobs
from readahead_serving.api.reply import Reply
from readahead_serving.api.sse import DONE, frame
from readahead_serving.api.tool_calls import Piece, TextPiece, ToolCallReader
from readahead_serving.engine.request import GenerationDelta, TokenLogprobs, Usage


def chat_message(text: str, *, with_tools: bool) -> tuple[dict[str, Any], bool]:
    """The assistant's message, and whether it calls tools.

    Args:
        text: The whole completion.
        with_tools: Whether it could make calls: otherwise tags are just text.
    """
    if not with_tools:
        return {"role": "assistant", "content": text, "refusal": None}, False
    reader = ToolCallReader()
    calls: list[dict[str, Any]] = []
    content = ""
    for piece in [*reader.push(text), *reader.flush()]:
        if isinstance(piece, TextPiece):
            content += piece.text
        elif piece.id is not None:
            calls.append(
                {"id": piece.id, "type": "function", "function": {"name": piece.name, "arguments": piece.arguments}}
            )
        else:
            calls[piece.number]["function"]["arguments"] += piece.arguments
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if calls:
        message |= {"content": content or None, "tool_calls": calls}
    return message, bool(calls)


class ChatStream:
    """Turns deltas into `chat.completion.chunk` events.

    Args:
        reply: The answer's identity.
        choices: How many there are.
        with_tools: Whether completions could make calls.
        with_usage: Whether a last chunk tells usage.
        with_running_usage: Whether every chunk tells what was used so far.
        token_bytes: The exact bytes of a token, if log probabilities are wanted; else None.
    """

    def __init__(
        self,
        reply: Reply,
        *,
        choices: int,
        with_tools: bool,
        with_usage: bool,
        with_running_usage: bool = False,
        token_bytes: TokenBytes | None,
    ) -> None:
        self._reply = reply
        self._readers = [ToolCallReader() for _ in range(choices)] if with_tools else []
        self._usages: dict[int, Usage] = {}
        self._choices = choices
        self._with_usage = with_usage
        self._with_running_usage = with_running_usage
        self._token_bytes = token_bytes

    async def frames(self, generation: Generation) -> AsyncGenerator[bytes]:
        """The events, up to and including [DONE]."""
        async for index, delta in generation:
            is_first = index not in self._usages
            self._usages[index] = delta.usage
            if is_first:
                yield self._chunk(index, {"role": "assistant", "content": ""})
            for item in self._events(index, delta):
                yield item
        if self._with_usage:
            yield frame(self._reply.object("chat.completion.chunk", [], usage=self._total()))
        yield DONE

    def _total(self) -> dict[str, object]:
        return total_usage([self._usages[i] for i in sorted(self._usages)], self._choices)

    def _events(self, index: int, delta: GenerationDelta) -> list[bytes]:
        deltas = [_delta_of(piece) for piece in self._pieces(index, delta)]
        if delta.logprobs and not deltas:
            deltas = [{}]  # text is held back, its log probabilities are not
        events = [
            self._chunk(index, content, logprobs=delta.logprobs if position == 0 else [])
            for position, content in enumerate(deltas)
        ]
        if delta.finish_reason is not None:
            called = bool(self._readers) and self._readers[index].calls > 0
            reason = "tool_calls" if called and delta.finish_reason == "stop" else delta.finish_reason
            events.append(self._chunk(index, {}, finish_reason=reason))
        return events

    def _pieces(self, index: int, delta: GenerationDelta) -> list[Piece]:
        if not self._readers:
            return [TextPiece(delta.text)] if delta.text else []
        reader = self._readers[index]
        pieces = reader.push(delta.text)
        return pieces if delta.finish_reason is None else [*pieces, *reader.flush()]

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        *,
        finish_reason: str | None = None,
        logprobs: list[TokenLogprobs] | None = None,
    ) -> bytes:
        told = chat_logprobs(logprobs, self._token_bytes) if logprobs and self._token_bytes is not None else None
        choice = {"index": index, "delta": delta, "logprobs": told, "finish_reason": finish_reason}
        more = {"usage": self._total() if self._with_running_usage else None} if self._with_usage else {}
        return frame(self._reply.object("chat.completion.chunk", [choice], **more))


def _delta_of(piece: Piece) -> dict[str, Any]:
    return {"content": piece.text} if isinstance(piece, TextPiece) else {"tool_calls": [piece.delta()]}
