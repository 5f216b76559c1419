"""Stop strings across pieces of text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from readahead_serving.engine.stop import StopChecker

ALPHABET = "ab한😀"


def run(stops: list[str], pieces: list[str]) -> tuple[list[str], bool]:
    checker = StopChecker(stops)
    shown = []
    for piece in pieces:
        shown.append(checker.push(piece))
        if checker.found:
            return shown, True
    return [*shown, checker.flush()], False


def test_text_ends_before_a_stop_string_that_spans_three_pieces() -> None:
    shown, found = run(["</think>"], ["so it is", "</th", "in", "k> never seen"])
    assert found
    assert "".join(shown) == "so it is"


def test_nothing_that_may_become_a_stop_string_is_shown_early() -> None:
    checker = StopChecker(["STOP"])
    assert checker.push("go ST") == "go "
    assert checker.push("UFF") == "STUFF"
    assert checker.push(" STO") == " "
    assert checker.flush() == "STO"


def test_of_two_stop_strings_in_one_piece_the_one_complete_first_ends_the_text() -> None:
    assert run(["late", "now", "o"], ["not before now or late"]) == (["n"], True)
    assert run(["late", "now"], ["not before now or late"]) == (["not before "], True)


def test_without_stop_strings_text_passes_at_once() -> None:
    assert run([], ["a", "b"]) == (["a", "b", ""], False)


def first_to_be_complete(stops: list[str], text: str) -> int | None:
    """Where the text ends, found character by character."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return end - max(map(len, ending))
    return None


@given(
    st.lists(st.text(ALPHABET, min_size=1, max_size=4), max_size=3),
    st.lists(st.text(ALPHABET, max_size=4), max_size=12),
)
def test_the_result_does_not_depend_on_where_pieces_end(stops: list[str], pieces: list[str]) -> None:
    text = "".join(pieces)
    end = first_to_be_complete(stops, text)
    shown, found = run(stops, pieces)
    assert found == (end is not None)
    assert "".join(shown) == text[:end]
