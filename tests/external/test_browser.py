"""The page with a document that others published: upload by hand, ask, see the cited page."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import browser, desk
from tests.browser.driving import Desk, highlighted_rows
from tests.platform.running import RunningReadahead

__all__ = ["browser", "desk"]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not os.environ.get("READAHEAD_TEST_DATA"), reason="READAHEAD_TEST_DATA is not set"),
]


def test_a_published_plan_is_uploaded_and_cited_by_the_right_page(readahead_up: RunningReadahead, desk: Desk) -> None:
    plan = Path(os.environ["READAHEAD_TEST_DATA"]) / "qa" / "documents" / "us-nara-strategic-plan-2022.pdf"
    desk.sign_in(readahead_up.api_key)
    desk.create_knowledge_base("plans")
    desk.upload(plan)
    desk.wait_until_read(plan.name, pages=16)
    desk.ask("How many pages of records will NARA digitize by FY 2026?")
    expect(desk.page.locator(".ra-prose").last).to_contain_text("500 million")
    desk.open_source(plan.name, "5")
    expect(desk.page.locator(".ra-viewer__place")).to_contain_text("page 5 of 16")
    expect(desk.page.locator(".ra-viewer__quote")).to_contain_text("500 million pages")
    top, bottom = highlighted_rows(desk.page_image())
    assert 0 < top < bottom < 1
    assert not desk.problems
