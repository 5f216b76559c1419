"""The typed events of one response, and the response as it grows with them."""

from __future__ import annotations

import copy
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any

Event = dict[str, Any]
Item = dict[str, Any]


class ResponseWriter:
    """Numbers events and keeps the output, so that the last event holds all that the others told.

    Args:
        response: The response at its beginning, with an empty output.
    """

    def __init__(self, response: Mapping[str, Any]) -> None:
        self._response: dict[str, Any] = {**response, "status": "in_progress", "output": []}
        self._sequence = 0

    @property
    def output(self) -> list[Item]:
        return list(self._response["output"])

    def begin(self) -> Iterator[Event]:
        yield self._whole("response.created")
        yield self._whole("response.in_progress")

    def add(self, item: Item) -> Event:
        """A new item, which later events change and `finish` ends."""
        self._response["output"].append(item)
        return self._event("response.output_item.added", output_index=self._index(item), item=copy.deepcopy(item))

    def tell(self, kind: str, item: Item, **fields: Any) -> Event:
        """Something about an item."""
        return self._event(kind, output_index=self._index(item), item_id=item["id"], **fields)

    def finish(self, item: Item, status: str = "completed") -> Event:
        if "status" in item:
            item["status"] = status
        return self._event("response.output_item.done", output_index=self._index(item), item=copy.deepcopy(item))

    def complete(self, usage: Mapping[str, Any], incomplete: str | None = None, **extra: Any) -> Event:
        """The last event.

        Args:
            usage: As chat completions count it.
            incomplete: Why it is cut, where it is.
        """
        self._response |= {"usage": _usage(usage), "completed_at": int(time.time()), **extra}
        if incomplete is None:
            self._response["status"] = "completed"
            return self._whole("response.completed")
        self._response |= {"status": "incomplete", "incomplete_details": {"reason": incomplete}}
        return self._whole("response.incomplete")

    def fail(self, error: Mapping[str, Any]) -> Event:
        """The last event of a response that came to nothing."""
        self._response |= {"status": "failed", "error": {"code": error["code"], "message": error["message"]}}
        return self._whole("response.failed")

    def _whole(self, kind: str) -> Event:
        return self._event(kind, response=copy.deepcopy(self._response))

    def _event(self, kind: str, **fields: Any) -> Event:
        event = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return event

    def _index(self, item: Item) -> int:
        return next(index for index, each in enumerate(self._response["output"]) if each is item)


class MessageWriter:
    """One message of text: opened by its first words."""

    def __init__(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        self._item: Item = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        self._is_open = False

    def write(self, text: str) -> Iterator[Event]:
        yield from self._opened()
        self._part["text"] += text
        yield self._tell("response.output_text.delta", delta=text, logprobs=[])

    def annotate(self, annotation: Mapping[str, Any]) -> Iterator[Event]:
        yield from self._opened()
        self._part["annotations"].append(annotation)
        index = len(self._part["annotations"]) - 1
        yield self._tell("response.output_text.annotation.added", annotation_index=index, annotation=annotation)

    @property
    def text(self) -> str:
        """What was written so far."""
        return str(self._part["text"])

    def end(self) -> Iterator[Event]:
        """Nothing is written after this; what was held back is."""
        return iter(())

    def close(self, status: str = "completed") -> Iterator[Event]:
        """Nothing, where nothing was written."""
        if not self._is_open:
            return
        yield self._tell("response.output_text.done", text=self._part["text"], logprobs=[])
        yield self._tell("response.content_part.done", part=copy.deepcopy(self._part))
        yield self._writer.finish(self._item, status)

    def _opened(self) -> Iterator[Event]:
        if self._is_open:
            return
        self._is_open = True
        yield self._writer.add(self._item)
        self._item["content"].append(self._part)
        yield self._tell("response.content_part.added", part=copy.deepcopy(self._part))

    def _tell(self, kind: str, **fields: Any) -> Event:
        return self._writer.tell(kind, self._item, content_index=0, **fields)


def _usage(chat: Mapping[str, Any]) -> dict[str, Any]:
    cached = (chat.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return {
        "input_tokens": chat["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": chat["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": chat["total_tokens"],
    }
