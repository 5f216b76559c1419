"""Words kept as numbers are the same words, and are written as the same bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from readahead_retrieval.boxes import line_boxes
from readahead_retrieval.flat_words import FlatWords
from readahead_retrieval.store.codec import decode_words, encode_words

PLACES = st.tuples(
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    *[st.floats(-0.5, 1.5, allow_nan=False) for _ in range(4)],
)


@given(st.lists(PLACES, max_size=20))
def test_flat_words_are_written_as_the_same_words_one_by_one(places: list[tuple[float, ...]]) -> None:
    flat = FlatWords([number for place in places for number in place])
    assert len(flat) == len(places)
    assert [(w.start, w.end, w.box.x0, w.box.y1) for w in flat] == [(p[0], p[1], p[2], p[5]) for p in places]
    assert encode_words(flat) == encode_words(tuple(flat))
    assert len(decode_words(encode_words(flat))) == len(places)
    assert flat == tuple(flat)
    assert tuple(flat[1:]) == tuple(flat)[1:]


@given(st.lists(PLACES, max_size=20), st.integers(0, 10**6), st.integers(0, 10**6))
def test_lines_are_drawn_around_flat_words_as_around_the_same_words_one_by_one(
    places: list[tuple[float, ...]], start: int, end: int
) -> None:
    flat = FlatWords([number for place in places for number in place])
    assert line_boxes(flat, start, end) == line_boxes(tuple(flat), start, end)
