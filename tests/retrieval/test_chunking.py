"""Chunks: whole sentences of one section, within the limit, each character accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from readahead_retrieval.chunking import chunk_pages
from readahead_retrieval.sentences import sentence_spans
from readahead_retrieval.tokens import EstimatedCounter, TokenCounter, TokenizerCounter
from readahead_retrieval.types import Chunk, Heading, Page, PageQuality


class WordCounter:
    """One token a word: makes limits readable in tests."""

    def count(self, text: str) -> int:
        return len(text.split())


def make_page(text: str, *, number: int = 1, headings: dict[str, int] | None = None) -> Page:
    """A page whose headings are the given lines, with their levels."""
    found = [Heading(text.index(line), text.index(line) + len(line), level) for line, level in (headings or {}).items()]
    in_order = tuple(sorted(found, key=lambda heading: heading.start))
    return Page(number, str(number), text, (), PageQuality.OK, 595.0, 842.0, in_order)


def chunked(pages: Sequence[Page], *, most: int, overlap: int = 0, counter: TokenCounter | None = None) -> list[Chunk]:
    return chunk_pages(pages, counter or WordCounter(), max_tokens=most, overlap_tokens=overlap)


def written(chunk: Chunk, pages: Sequence[Page]) -> str:
    """What the chunk's spans say, without white space."""
    by_number = {page.number: page.text for page in pages}
    return "".join("".join(by_number[span.page][span.start : span.end].split()) for span in chunk.spans)


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


def test_sentences_are_not_cut() -> None:
    page = make_page("One two three four. Five six seven. Eight nine ten eleven twelve. Thirteen.")
    assert [chunk.text for chunk in chunked([page], most=8)] == [
        "One two three four. Five six seven.",
        "Eight nine ten eleven twelve. Thirteen.",
    ]


def test_a_chunk_repeats_whole_sentences_of_the_one_before() -> None:
    page = make_page("One two three. Four five. Six seven eight. Nine ten.")
    assert [chunk.text for chunk in chunked([page], most=6, overlap=3)] == [
        "One two three. Four five.",
        "Four five. Six seven eight.",
        "Six seven eight. Nine ten.",
    ]


def test_repeated_sentences_keep_their_order() -> None:
    page = make_page("One two. Three four. Five six. Seven eight. Nine ten.")
    assert [chunk.text for chunk in chunked([page], most=6, overlap=4)] == [
        "One two. Three four. Five six.",
        "Three four. Five six. Seven eight.",
        "Five six. Seven eight. Nine ten.",
    ]


def test_a_sentence_longer_than_a_chunk_is_cut_between_words() -> None:
    words = " ".join(f"w{number}" for number in range(40))
    chunks = chunked([make_page(words)], most=8)
    assert " ".join(chunk.text for chunk in chunks) == words
    assert all(len(chunk.text.split()) <= 8 for chunk in chunks)


def test_a_chunk_crosses_pages_and_says_so() -> None:
    pages = [make_page("The end of one page.", number=3), make_page("Goes on here.", number=4)]
    (chunk,) = chunked(pages, most=20)
    assert [span.page for span in chunk.spans] == [3, 4]
    assert (chunk.first_page, chunk.last_page) == (3, 4)


def test_a_chunk_does_not_cross_a_heading_of_high_level() -> None:
    page = make_page("Scope\nAll staff.\nPay\nMonthly.", headings={"Scope": 1, "Pay": 1})
    assert [(chunk.heading, chunk.text) for chunk in chunked([page], most=50)] == [
        ("", "Scope\nAll staff."),
        ("", "Pay\nMonthly."),
    ]


def test_a_chunk_carries_the_headings_above_it_but_not_those_in_its_text() -> None:
    text = "Guide\nScope\nAll staff here. And so on now. Even more words."
    page = make_page(text, headings={"Guide": 1, "Scope": 2})
    assert [(chunk.heading, chunk.text) for chunk in chunked([page], most=12)] == [
        ("", "Guide\nScope\nAll staff here. And so on now. Even more words.")
    ]
    assert [(chunk.heading, chunk.text) for chunk in chunked([page], most=8)] == [
        ("", "Guide\nScope\nAll staff here."),
        ("Scope", "And so on now. Even more words."),
    ]


def test_a_heading_does_not_stand_last_in_a_chunk() -> None:
    text = "One two three.\nDetails\nFour five six seven eight nine ten eleven twelve."
    chunks = chunked([make_page(text, headings={"Details": 3})], most=12)
    assert [chunk.text for chunk in chunks] == text.replace("three.\n", "three.\n\n").split("\n\n")


def test_rows_are_not_cut_and_repeat_their_header() -> None:
    rows = ["Model | Power", "R-100 | 450", "R-200 | 900", "R-300 | 950"]
    chunks = chunked([make_page("\n".join(rows))], most=9)
    assert [chunk.text.split("\n") for chunk in chunks] == [
        ["Model | Power", "R-100 | 450", "R-200 | 900"],
        ["Model | Power", "R-300 | 950"],
    ]


def table_over_pages(footer: str, second: str) -> list[Page]:
    return [
        make_page(f"Model | Power\nR-100 | 450 W\nR-200 | 900 W\n{footer}"),
        make_page(f"{second}\nR-300 | 1200 W\nR-400 | 1500 W", number=2),
    ]


def test_running_lines_between_pages_do_not_part_rows_from_their_header() -> None:
    pages = table_over_pages("Company handbook\n17", "Chapter on machines")
    chunks = chunked(pages, most=14)
    assert "R-300" in chunks[-1].text
    for chunk in chunks:
        if "R-300" in chunk.text or "R-400" in chunk.text:
            assert "Model | Power" in chunk.text
            assert chunk.text.index("Model | Power") < chunk.text.index("R-")


def test_a_header_that_begins_a_chunk_stands_there_once() -> None:
    prose = "One two three four five six seven eight."
    chunks = chunked([make_page(f"{prose}\nModel | Power\nR-100 | 450")], most=10)
    assert [chunk.text for chunk in chunks] == [prose, "Model | Power\nR-100 | 450"]


def test_a_table_after_a_paragraph_has_a_header_of_its_own() -> None:
    prose = " ".join(f"word{number}" for number in range(50)) + "."
    for footer, second in ((prose, ""), ("", "Name | Age | Town"), ("", "Model | Power")):
        chunks = chunked(table_over_pages(footer, second), most=60)
        assert sum(chunk.text.count("Model | Power") for chunk in chunks) == 1 + (second == "Model | Power")


def test_a_table_that_goes_on_over_pages_keeps_its_header() -> None:
    first = make_page("Model | Power\nR-1 | 450\nR-2 | 900", number=1)
    pages = [first, make_page("R-3 | 950\nR-4 | 990\nR-5 | 995", number=2)]
    chunks = chunked(pages, most=9)
    assert len(chunks) == 3
    assert all(chunk.text.startswith("Model | Power\n") for chunk in chunks)
    assert [written(chunk, pages) for chunk in chunks] == ["".join(chunk.text.split()) for chunk in chunks]


def test_a_page_of_garbage_takes_no_part() -> None:
    garbage = Page(2, "2", "\x01\x02 header", (), PageQuality.GARBAGE, 595.0, 842.0)
    assert [chunk.text for chunk in chunked([make_page("Fine."), garbage], most=10)] == ["Fine."]


def test_a_document_without_text_has_no_chunks() -> None:
    assert chunked([make_page(""), make_page(" \n ", number=2)], most=10) == []


@pytest.mark.parametrize(("most", "overlap"), [(10, 10), (10, -1), (0, 0)])
def test_an_overlap_without_room_for_new_text_is_refused(most: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="overlap_tokens"):
        chunked([make_page("Text.")], most=most, overlap=overlap)


_LINES = st.lists(
    st.one_of(
        st.text(alphabet="ab .!?1,\u3002가나다。한글", max_size=60),
        st.lists(st.text(alphabet="xy12", min_size=1, max_size=6), min_size=2, max_size=4).map(" | ".join),
        st.text(alphabet="zW", min_size=30, max_size=120),
    ),
    max_size=8,
)


@st.composite
def documents(draw: st.DrawFn) -> list[Page]:
    pages = []
    for number, lines in enumerate(draw(st.lists(_LINES, max_size=4)), start=1):
        found, start = [], 0
        for line in lines:
            stripped = line.strip()
            if stripped and draw(st.integers(0, 5)) == 0:
                left = start + line.index(stripped)
                found.append(Heading(left, left + len(stripped), draw(st.integers(1, 3))))
            start += len(line) + 1
        text = "\n".join(lines)
        pages.append(Page(number, str(number), text, (), PageQuality.OK, 1.0, 1.0, tuple(found)))
    return pages


@settings(max_examples=300, deadline=None)
@given(documents(), st.integers(8, 40), st.integers(0, 7))
def test_spans_give_the_text_again_and_nothing_is_lost(pages: list[Page], most: int, overlap: int) -> None:
    counter = EstimatedCounter()
    chunks = chunked(pages, most=most, overlap=overlap, counter=counter)
    covered: set[tuple[int, int]] = set()
    for chunk in chunks:
        assert written(chunk, pages) == "".join(chunk.text.split())
        assert all(span.start < span.end for span in chunk.spans)
        covered |= {(span.page, at) for span in chunk.spans for at in range(span.start, span.end)}
    for page in pages:
        for at, character in enumerate(page.text):
            assert character.isspace() or (page.number, at) in covered


@settings(max_examples=300, deadline=None)
@given(documents(), st.integers(8, 40), st.integers(0, 7))
def test_no_chunk_exceeds_the_limit_with_its_heading(pages: list[Page], most: int, overlap: int) -> None:
    counter = EstimatedCounter()
    for chunk in chunked(pages, most=most, overlap=overlap, counter=counter):
        embedded = f"{chunk.heading}\n{chunk.text}" if chunk.heading else chunk.text
        assert counter.count(embedded) <= most


def test_the_limit_holds_for_a_real_tokenizer(minilm_path: Path) -> None:
    counter = TokenizerCounter.from_file(minilm_path / "tokenizer.json")
    text = " ".join(
        f"The reading of station {number} was {number * 37 % 101}.5 metres; see Fig. {number}." for number in range(400)
    )
    chunks = chunked([make_page(text)], most=120, overlap=30, counter=counter)
    counts = [counter.count(chunk.text) for chunk in chunks]
    assert max(counts) <= 120
    assert min(counts[:-1]) > 80, "chunks are filled"


def test_counting_ignores_truncation_and_padding_of_the_file(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "word": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=6)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    counter = TokenizerCounter.from_file(path)
    assert counter.count("word " * 9) == 9
    assert counter.count("word") == 1


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_counting_never_fails(text: str) -> None:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    for counter in (EstimatedCounter(), TokenizerCounter(tokenizer)):
        assert counter.count(text) >= 0


def test_the_estimate_is_not_below_a_real_count(minilm_path: Path) -> None:
    real = TokenizerCounter.from_file(minilm_path / "tokenizer.json")
    for text in (
        "The committee shall publish its findings within thirty days of the meeting.",
        "Ref. 2.3.59.1.6 (01-17-2023): 18,870 | 23,022 | 22,650",
        "대한민국의 주권은 국민에게 있고, 모든 권력은 국민으로부터 나온다.",
        "電線接続端子部が次のいずれにも該当しないとき。",
    ):
        assert EstimatedCounter().count(text) >= real.count(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rained. We left.", ["It rained.", "We left."]),
        ("Dr. Lee met Mr. Kim. They spoke.", ["Dr. Lee met Mr. Kim.", "They spoke."]),
        ("See Fig. 3 and No. 7. Done.", ["See Fig. 3 and No. 7.", "Done."]),
        ("It costs 3.50 in the U.S. today. Cheap!", ["It costs 3.50 in the U.S. today.", "Cheap!"]),
        ("J. R. Smith wrote it. Why?", ["J. R. Smith wrote it.", "Why?"]),
        ("1. Switch it off. 2. Wait.", ["1. Switch it off.", "2. Wait."]),
        ("It ended in 1867. The mill closed.", ["It ended in 1867.", "The mill closed."]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("Items, e.g. nails, etc. are listed. Next.", ["Items, e.g. nails, etc. are listed.", "Next."]),
        ("비가 왔다. 우리는 떠났다.", ["비가 왔다.", "우리는 떠났다."]),
        ("2020. 1. 1. 시행되었다. 끝.", ["2020. 1. 1. 시행되었다.", "끝."]),
        ("가. 적용 범위이다. 나. 예외이다.", ["가. 적용 범위이다.", "나. 예외이다."]),
        ("これは文です。次の文です。", ["これは文です。", "次の文です。"]),
        ("one\ntwo", ["one", "two"]),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_would_say_so(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet="aA1 .!?\n\"')。가다,"))
def test_every_character_lies_in_one_sentence(text: str) -> None:
    spans = list(sentence_spans(text))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
