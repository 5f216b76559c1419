"""From the words of a quote to its lines on the page."""

from __future__ import annotations

from readahead_retrieval.boxes import line_boxes
from readahead_retrieval.types import Box, Word

#  "one two / three" on two lines, "four" on top of a second column
WORDS = (
    Word(0, 3, Box(0.1, 0.10, 0.2, 0.12)),
    Word(4, 7, Box(0.22, 0.105, 0.3, 0.12)),
    Word(8, 13, Box(0.1, 0.13, 0.25, 0.15)),
    Word(14, 18, Box(0.6, 0.10, 0.7, 0.12)),
)


def test_words_of_a_line_share_a_box_and_each_line_has_its_own() -> None:
    assert line_boxes(WORDS, 0, 13) == (Box(0.1, 0.10, 0.3, 0.12), Box(0.1, 0.13, 0.25, 0.15))


def test_the_next_column_is_another_line() -> None:
    assert line_boxes(WORDS, 8, 18) == (WORDS[2].box, WORDS[3].box)


def test_only_the_words_of_the_quote_are_marked() -> None:
    assert line_boxes(WORDS, 4, 7) == (WORDS[1].box,)
    assert line_boxes(WORDS, 3, 4) == ()


def test_columns_of_a_table_row_are_one_line() -> None:
    row = (Word(0, 1, Box(0.1, 0.1, 0.2, 0.12)), Word(4, 5, Box(0.7, 0.1, 0.8, 0.12)))
    assert line_boxes(row, 0, 5) == (Box(0.1, 0.1, 0.8, 0.12),)
