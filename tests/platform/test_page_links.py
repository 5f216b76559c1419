"""Signed links to page images."""

from __future__ import annotations

import pytest

from readahead_platform.gateway.page_links import PageLinks, format_boxes, parse_boxes
from readahead_retrieval.types import Box


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_token_opens_its_document_for_its_tenant_until_it_expires() -> None:
    clock = Clock()
    links = PageLinks(60, clock)
    token = links.sign("acme", "doc_1")
    assert links.verify(token, "doc_1") == "acme"
    assert links.verify(token, "doc_2") is None
    clock.now += 61
    assert links.verify(token, "doc_1") is None


@pytest.mark.parametrize(
    "forge", [lambda t: t.replace("acme", "evil"), lambda t: t[:-1], lambda t: "", lambda t: "a.b.c"]
)
def test_a_forged_token_opens_nothing(forge: object) -> None:
    links = PageLinks(60)
    assert callable(forge)
    assert links.verify(forge(links.sign("acme", "doc_1")), "doc_1") is None


def test_a_token_of_another_process_opens_nothing() -> None:
    assert PageLinks(60).verify(PageLinks(60).sign("acme", "doc_1"), "doc_1") is None


def test_boxes_survive_the_way_through_a_url() -> None:
    boxes = (Box(0.1, 0.25, 0.5, 1.0), Box(0.0, 0.0, 1.0, 0.1234))
    assert parse_boxes(format_boxes(boxes)) == boxes
    assert parse_boxes("") == ()


@pytest.mark.parametrize("text", ["1,2,3", "0,0,1,2", "a,b,c,d", "0,0,1,nan", ";", "0,0,1,1;" * 65])
def test_what_is_no_list_of_boxes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_boxes(text)
