"""A `LanguageModel` over any server that speaks the OpenAI API, through the official SDK."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import openai
from openai import AsyncOpenAI, AsyncStream
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam
from openai.types.completion_usage import CompletionUsage

from readahead_agents.errors import LanguageModelError, LanguageModelRefused, LanguageModelUnavailable
from readahead_agents.llm.base import CompletionChunk, CompletionOptions, Message, TokenUsage
from readahead_agents.llm.token_estimate import TokenCounts, estimate_tokens

CONNECT_TIMEOUT_S = 5.0
MAX_SINGLE_COUNTS = 16
"""Requests to a server that counts one text at a time, for one list of texts."""
MAX_MESSAGE_CHARS = 1000
RETRYABLE_STATUS = frozenset({408, 409, 425, 429})


class OpenAILanguageModel:
    """Speaks to `base_url` (…/v1) as the OpenAI SDK does.

    Args:
        base_url: The API's root, ending in /v1.
        model: The model's name at the server.
        api_key: The server's key; local servers ignore it.
        max_retries: How often the SDK starts a request anew that was refused for the moment or never arrived. A
            stream that has begun is never repeated.
        idle_timeout_s: Seconds without a byte after which the server counts as gone.
        window: Tokens of the context window where the server does not tell (`max_model_len` in /v1/models).
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str,
        *,
        max_retries: int = 2,
        idle_timeout_s: float = 120.0,
        window: int = 4096,
    ) -> None:
        timeout = openai.Timeout(idle_timeout_s, connect=CONNECT_TIMEOUT_S)
        self._client = AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=max_retries, timeout=timeout)
        self._base_url = base_url.rstrip("/")
        self._model = model
        self._window_if_untold = window
        self._window: int | None = None
        self._tells_window = False
        self._counts = TokenCounts()
        self._tokenizing: Literal["many", "one", "none"] = "many"
        """Texts that the server counts in one request, as found out so far."""

    def with_headers(self, headers: Mapping[str, str]) -> OpenAILanguageModel:
        """The same model and connections, with headers on every request; closing it is the original's business."""
        view = copy.copy(self)
        view._client = self._client.with_options(default_headers=headers)
        return view

    async def aclose(self) -> None:
        """Closes the connections; streams in flight end."""
        await self._client.close()

    async def stream(
        self, messages: Sequence[Message], options: CompletionOptions
    ) -> AsyncGenerator[CompletionChunk, None]:
        """Streams one completion; `options.timeout_s` bounds the whole of it."""
        loop = asyncio.get_running_loop()
        deadline = None if options.timeout_s is None else loop.time() + options.timeout_s
        with self._translated():
            async with asyncio.timeout_at(deadline):
                stream = await self._create(messages, options)
        end = _StreamEnd()
        try:
            while True:
                with self._translated():
                    async with asyncio.timeout_at(deadline):
                        chunk = await anext(stream, None)
                if chunk is None:
                    break
                if text := end.take(chunk):
                    yield CompletionChunk(text, usage=end.usage)
        finally:
            await stream.close()
        yield end.last_chunk()

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """By the server's `POST /tokenize`, all texts at once; an over-estimate where it has none.

        A server that takes one text at a time counts the longest ones, and the others are estimated.
        """
        known = {text: self._counts.get(text) for text in texts}
        unknown = sorted((text for text, count in known.items() if count is None), key=len, reverse=True)
        told = await self._told(unknown)
        for text in unknown:
            known[text] = told.get(text)
            if known[text] is None:
                known[text] = estimate_tokens(text)
            self._counts.put(text, known[text] or 0)
        return [known[text] or 0 for text in texts]

    async def context_window(self) -> int:
        """`max_model_len` of the model in /v1/models, asked for once."""
        if self._window is None:
            told = await self._told_window()
            self._tells_window = told is not None
            self._window = told or self._window_if_untold
        return self._window

    async def _create(
        self, messages: Sequence[Message], options: CompletionOptions
    ) -> AsyncStream[ChatCompletionChunk]:
        usage: Any = {"include_usage": True}
        if self._tells_window:  # as ours and vLLM do, who tell usage as they go; OpenAI's own refuses to be asked
            usage["continuous_usage_stats"] = True
        return await self._client.chat.completions.create(
            model=self._model,
            messages=[_param(message) for message in messages],
            max_completion_tokens=options.max_tokens,
            temperature=options.temperature,
            top_p=options.top_p,
            seed=openai.omit if options.seed is None else options.seed,
            stop=list(options.stop) or openai.omit,
            response_format=_response_format(options.json_schema) if options.json_schema else openai.omit,
            stream=True,
            stream_options=usage,
        )

    async def _told(self, texts: Sequence[str]) -> dict[str, int]:
        """Counts by the server, for as many of the texts as it can be asked about."""
        if len(texts) > 1 and self._tokenizing == "many":
            counts = (await self._tokenize({"text": list(texts)})).get("counts")
            if isinstance(counts, list) and len(counts) == len(texts):
                return dict(zip(texts, counts, strict=True))
            self._tokenizing = "one"
        told: dict[str, int] = {}
        for text in texts[:MAX_SINGLE_COUNTS]:
            if self._tokenizing == "none":
                break
            # ours reads `text`, vLLM reads `prompt`
            count = (await self._tokenize({"text": text, "prompt": text})).get("count")
            if isinstance(count, int):
                told[text] = count
            else:
                self._tokenizing = "none"
        return told

    async def _tokenize(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The reply, empty where the server does not know the endpoint or such a body."""
        url = f"{self._base_url.removesuffix('/v1')}/tokenize"
        with self._translated():
            try:
                return await self._client.post(url, body={"model": self._model, **fields}, cast_to=dict[str, Any])
            except openai.APIStatusError as error:
                if _temporary(error.status_code):
                    raise
                return {}

    async def _told_window(self) -> int | None:
        with self._translated():
            page = await self._client.models.list()
        for model in page.data:
            told = (model.model_extra or {}).get("max_model_len")
            if model.id == self._model and isinstance(told, int):
                return told
        return None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turns the SDK's errors, and a passed deadline, into ours."""
        try:
            yield
        except TimeoutError as error:
            raise LanguageModelUnavailable("The language model did not finish in the time allowed.") from error
        except openai.OpenAIError as error:
            raise _translate(error) from error


class _StreamEnd:
    """Collects what OpenAI spreads over the last chunks: the finish reason comes before the usage."""

    def __init__(self) -> None:
        self._finish_reason: str | None = None
        self.usage: TokenUsage | None = None
        """As last told; while the stream goes on, so far."""

    def take(self, chunk: ChatCompletionChunk) -> str:
        """The chunk's text; its finish reason and usage are kept for the end."""
        if chunk.usage is not None:
            self.usage = _usage(chunk.usage)
        if not chunk.choices:
            return ""
        choice = chunk.choices[0]
        self._finish_reason = choice.finish_reason or self._finish_reason
        return choice.delta.content or ""

    def last_chunk(self) -> CompletionChunk:
        if self._finish_reason is None:
            raise LanguageModelUnavailable("The language model ended its answer in the middle.")
        return CompletionChunk("", self._finish_reason, self.usage or TokenUsage(calls=1))


def _param(message: Message) -> ChatCompletionMessageParam:
    if message.role == "system":
        return {"role": "system", "content": message.content}
    if message.role == "assistant":
        return {"role": "assistant", "content": message.content}
    return {"role": "user", "content": message.content}


def _response_format(schema: dict[str, Any]) -> Any:
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}}


def _usage(usage: CompletionUsage) -> TokenUsage:
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details is not None else None
    return TokenUsage(usage.prompt_tokens, usage.completion_tokens, cached or 0, calls=1)


def _translate(error: openai.OpenAIError) -> LanguageModelError:
    """As ours. The message is the server's own: the SDK's begins with a status, and no address is for who asks."""
    if isinstance(error, openai.APIStatusError):
        if _temporary(error.status_code):
            message = f"The language model is busy or failing ({error.status_code}): {_words(error)}"
            return LanguageModelUnavailable(message, _retry_after_s(error.response.headers))
        return LanguageModelRefused(_words(error), status=error.status_code, code=error.code, param=error.param)
    if isinstance(error, openai.APITimeoutError):
        return LanguageModelUnavailable("The language model did not answer in time.")
    if isinstance(error, openai.APIConnectionError):
        return LanguageModelUnavailable("The language model cannot be reached: is its server running?")
    return LanguageModelUnavailable(f"The language model failed: {error}")


def _words(error: openai.APIStatusError) -> str:
    """The server's message out of its envelope, which the SDK has opened already; a bounded part of any other body."""
    message = error.body.get("message") if isinstance(error.body, dict) else error.body
    return str(message or f"status {error.status_code}, without a reason")[:MAX_MESSAGE_CHARS]


def _temporary(status: int) -> bool:
    return status in RETRYABLE_STATUS or status >= 500


def _retry_after_s(headers: Any) -> float | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
    return None
