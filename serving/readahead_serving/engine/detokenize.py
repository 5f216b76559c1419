"""Tokens to text, in whole code points."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection, Iterable


class Detokenizer:
    """Turns a stream of tokens into text as it comes.

    A token may end inside a code point (most Hangul syllables and emoji take several): its bytes wait for the rest.
    The pieces joined are exactly the decoding of all tokens at once; bytes that are no UTF-8 become U+FFFD.

    Args:
        token_bytes: The exact bytes of a token.
        special_ids: Tokens that have no text.
    """

    def __init__(self, token_bytes: Callable[[int], bytes], special_ids: Collection[int] = ()) -> None:
        self._token_bytes = token_bytes
        self._special_ids = special_ids
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that these tokens complete."""
        return self._decoder.decode(b"".join(self._token_bytes(t) for t in token_ids if t not in self._special_ids))

    def flush(self) -> str:
        """What an unfinished code point amounts to at the end."""
        return self._decoder.decode(b"", final=True)
