"""The parts of the web page that need no page: words, sources, turns, links and what may become markup."""

from __future__ import annotations

import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

from readahead_agents.events import (
    Answered,
    CitationFound,
    PlanMade,
    QuestionRewritten,
    Replanned,
    StepFinished,
    StepStarted,
    Token,
)
from readahead_agents.llm.base import TokenUsage
from readahead_agents.planning.plan import Plan
from readahead_platform.routing.route import Route, RouteChosen
from readahead_platform.web.prose import answer_html
from readahead_platform.web.secret import storage_folder, storage_secret
from readahead_platform.web.sign_in_links import MAX_OPEN, SignInLinks
from readahead_platform.web.sources import marks, number_sources
from readahead_platform.web.suggestions import suggestions
from readahead_platform.web.turns import HISTORY_TURNS, MAX_CONVERSATIONS, MAX_TURNS, Tab, Turn, messages_for
from readahead_platform.web.wording import (
    ROUTE_NAMES,
    can_be_read_ahead,
    document_line,
    progress,
    unread_line,
    whole_text_line,
)
from readahead_retrieval.types import Box, Citation, Document, DocumentState


def citation(document: str, page: int, end: int, quote: str = "q", score: float = 0.5) -> Citation:
    box = Box(0.1, 0.1, 0.2, 0.2)
    return Citation(f"doc_{document}", document, page, str(page), quote, score, (box,), 0, end)


DOCUMENT = Document(
    "doc_1", "vs_1", "file-1", "a.pdf", DocumentState.QUEUED, datetime(2031, 1, 1, tzinfo=UTC), 0, 0, (), 0, 0
)


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<img src=http://elsewhere/x.png onerror=alert(1)>",
        "![x](http://elsewhere/x.png)",
        "[x](javascript:alert(1))",
        "[x](http://elsewhere/)",
        "<http://elsewhere/>",
        "| a |\n| --- |\n| <img src=x> |",
        '"><button data-source="9">',
    ],
)
def test_nothing_in_an_answer_becomes_a_link_an_image_or_markup(hostile: str) -> None:
    html = answer_html(hostile)
    assert not any(tag in html for tag in ("<script", "<img", "<a ", "<button"))


def test_answers_keep_their_lists_and_tables() -> None:
    html = answer_html("**bold**\n\n- one\n- two\n\n| a | b |\n| --- | --- |\n| 1 | 2 |")
    assert all(tag in html for tag in ("<strong>bold", "<li>two", "<td>2"))


def test_a_source_is_marked_where_its_sentence_ends() -> None:
    html = answer_html("One. Two.", [(4, 1), (9, 2)])
    assert html.index("One.") < html.index('data-source="1"') < html.index("Two.") < html.index('data-source="2"')


def test_marks_that_the_model_wrote_itself_are_dropped() -> None:
    assert "<button" not in answer_html("\ue0007\ue001")
    assert answer_html("\ue0007\ue001 x", [(5, 1)]).count("<button") == 1


def test_citations_of_one_page_are_one_source() -> None:
    cited = [citation("b", 3, 10, "x", 0.4), citation("a", 1, 20), citation("b", 3, 30, "y", 0.9)]
    first, second = number_sources(cited)
    assert (first.document, first.page, first.quotes, first.score) == ("b", 3, ("x", "y"), 0.9)
    assert second.number == 2
    assert marks(cited, [first, second]) == [(10, 1), (20, 2), (30, 1)]


def test_a_quote_that_stands_in_another_is_shown_once() -> None:
    quotes = ("The oil is\nchanged.", "The oil is changed.", "Warning: The oil is changed. Twice.", "Else.")
    (source,) = number_sources([citation("b", 3, 10, quote) for quote in quotes])
    assert source.quotes == ("Warning: The oil is changed. Twice.", "Else.")


@pytest.mark.parametrize("route", get_args(Route))
def test_every_route_that_an_answer_can_take_has_a_name(route: Route) -> None:
    assert ROUTE_NAMES[route]


def test_a_turn_follows_the_events_of_an_agent_run() -> None:
    turn = Turn("q")
    for event in (
        RouteChosen("agent", "why"),
        QuestionRewritten("q of that", "rules"),
        PlanMade(Plan((), "first this", ("then that",)), ("a server is away",)),
        Replanned("it came to nothing"),
        StepStarted("s1", "query_rag_with_context", {"question": "which?"}),
        StepStarted("s2", "generate_analysis", {}),
        StepFinished("s1", "query_rag_with_context", False, "it failed", 12.0),
        Token("Yes"),
        Token("."),
        CitationFound(citation("a", 1, 4)),
    ):
        turn.apply(event)
    assert [(step.about, step.ok, step.summary) for step in turn.steps] == [
        ("which?", False, "it failed"),
        ("", None, ""),
    ]
    assert (turn.answer, len(turn.citations)) == ("Yes.", 1)
    assert turn.asked_as == "q of that"
    assert turn.remarks == ("first this", "then that", "a server is away", "A new plan, because: it came to nothing")
    turn.apply(Answered("Yes!", (), TokenUsage(), "length", covered=True, notes=("one left out",)))
    turn.done = True
    assert turn.notes == ("one left out",)
    assert (turn.answer, turn.citations, turn.cut_short, turn.unsupported) == ("Yes!", (), True, True)


def test_only_answered_turns_go_along_as_history_and_only_the_last() -> None:
    turns = [Turn(f"q{i}", answer=f"a{i}", done=True) for i in range(10)] + [
        Turn("bad", answer="x", done=True, error="e")
    ]
    sent = messages_for(turns, "now")
    assert [m.content for m in sent[:2]] == [f"q{10 - HISTORY_TURNS}", f"a{10 - HISTORY_TURNS}"]
    assert (sent[-1].role, sent[-1].content, len(sent)) == ("user", "now", 2 * HISTORY_TURNS + 1)


def test_what_a_tab_keeps_is_bounded() -> None:
    tab = Tab()
    for number in range(MAX_TURNS + 5):
        tab.turns("kb").append(Turn(str(number)))
    assert len(tab.turns("kb")) == MAX_TURNS
    for number in range(MAX_CONVERSATIONS):
        tab.turns(f"kb{number}")
    assert not tab.turns("kb"), "the conversation used longest ago is forgotten first"


def test_every_state_has_a_sentence_and_progress_only_grows() -> None:
    walk = [
        DOCUMENT,
        replace(DOCUMENT, state=DocumentState.EXTRACTING),
        replace(DOCUMENT, state=DocumentState.EXTRACTING, pages=4, pages_done=3),
        replace(DOCUMENT, state=DocumentState.CHUNKING, pages=4, pages_done=4),
        replace(DOCUMENT, state=DocumentState.EMBEDDING, pages=4, pages_done=4, chunks=8, chunks_done=2),
        replace(DOCUMENT, state=DocumentState.INDEXING, pages=4, pages_done=4, chunks=8, chunks_done=8),
        replace(DOCUMENT, state=DocumentState.SEARCHABLE, pages=1, pages_done=1, chunks=8, chunks_done=8),
    ]
    assert [progress(document) for document in walk] == sorted(progress(document) for document in walk)
    assert document_line(walk[2]) == "Reading page 4 of 4"
    assert document_line(walk[4]) == "Embedding passages, 2 of 8"
    assert document_line(walk[6]) == "1 page · 8 passages"
    assert document_line(replace(DOCUMENT, state=DocumentState.FAILED, error_message="Why.")) == "Why."


def test_unread_pages_are_listed_and_the_rest_counted() -> None:
    searchable = replace(DOCUMENT, state=DocumentState.SEARCHABLE, pages=30)
    assert unread_line(searchable) == ""
    assert unread_line(replace(searchable, pages_unread=(2,))).startswith("Without readable text: page 2 ")
    assert "1, 2, 3, 4, 5, 6 and 3 more" in unread_line(replace(searchable, pages_unread=tuple(range(1, 10))))


@pytest.mark.parametrize(
    ("state", "told", "button"),
    [
        ("building", "reading the whole text, 43%", False),
        ("resident", "has read the whole text (1 token)", False),
        ("on_disk", "on disk (1 token)", False),
        ("stale", "have changed", True),
        ("failed", "could not be read ahead: out of memory", True),
    ],
)
def test_every_state_of_a_pack_has_a_sentence(state: str, told: str, button: bool) -> None:
    pack = {"state": state, "progress": 0.43, "tokens": 1, "reason": "out of memory"}
    assert told in whole_text_line(pack)
    assert can_be_read_ahead(pack) is button
    assert "has not read" in whole_text_line(None)


def test_suggestions_come_from_searchable_documents() -> None:
    sample = replace(DOCUMENT, name="c40-cold-room-controller-manual.pdf", state=DocumentState.SEARCHABLE)
    own = replace(DOCUMENT, name="mine.pdf", state=DocumentState.SEARCHABLE)
    waiting = replace(DOCUMENT, name="waiting.pdf")
    asked = suggestions([sample, own, waiting])
    assert any("E12" in question for question in asked)
    assert any("mine" in question for question in asked)
    assert not any("waiting" in question for question in asked)


def test_a_sign_in_link_works_once_and_not_for_long() -> None:
    now = 0.0
    links = SignInLinks(lifetime_s=10, clock=lambda: now)
    token = links.path("sk-1").removeprefix("/?link=")
    late = links.path("sk-2").removeprefix("/?link=")
    assert links.redeem(token) == "sk-1"
    assert links.redeem(token) is None
    now = 11.0
    assert links.redeem(late) is None
    assert links.redeem("guessed") is None


def test_open_sign_in_links_are_bounded() -> None:
    links = SignInLinks()
    tokens = [links.path(f"sk-{n}").removeprefix("/?link=") for n in range(MAX_OPEN + 1)]
    assert links.redeem(tokens[0]) is None
    assert links.redeem(tokens[-1]) == f"sk-{MAX_OPEN}"


def test_the_session_secret_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    secret = storage_secret(tmp_path)
    assert len(secret) >= 32
    assert storage_secret(tmp_path) == secret
    assert stat.S_IMODE((storage_folder(tmp_path) / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE(storage_folder(tmp_path).stat().st_mode) == 0o700
