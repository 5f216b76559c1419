"""Calls that wait for somebody's word, as a person meets them on the page, in Chromium."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.driving import Desk
from tests.platform.running import ROOT, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
QUESTION = "How heavy is the Halden pump? Enter the pump Halden into the log."
STOP_S = 30


@dataclass(frozen=True)
class Asking:
    """A service whose agent asks before a call at every question, and a client beside the page."""

    url: str
    key: str
    http: httpx.Client

    def waiting(self) -> tuple[str, dict[str, Any]]:
        """The newest run's path, and its call that waits."""
        newest = self.http.get("/v1/agent/runs").json()["data"][0]["id"]
        path = f"/v1/agent/runs/{newest}"
        return path, self.http.get(path).json()["approvals"][0]

    def decide(self, path: str, approval: str, *, approve: bool) -> httpx.Response:
        return self.http.post(f"{path}/approvals/{approval}", json={"approve": approve})


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    command = [sys.executable, "-m", "tests.browser.asking_service", str(tmp_path_factory.mktemp("asking"))]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        told = json.loads(process.stdout.readline())
        headers = {"Authorization": f"Bearer {told['key']}"}
        with httpx.Client(base_url=told["url"], headers=headers, timeout=60) as http:
            yield Asking(told["url"], told["key"], http)
        process.stdin.close()
        process.wait(STOP_S)


@pytest.fixture
def desk(asking: Asking, browser: Browser) -> Iterator[Desk]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    desk = Desk(context.new_page(), asking.url)
    desk.sign_in(asking.key)
    yield desk
    context.close()


def ask(desk: Desk) -> None:
    desk.page.get_by_role("button", name="Agent", exact=True).click()
    desk.page.get_by_label("Your question").fill(QUESTION)
    desk.page.keyboard.press("Enter")
    expect(desk.page.get_by_role("group", name="enter")).to_be_visible(timeout=60_000)


def test_a_waiting_call_shows_what_it_would_do_outlives_a_reload_and_is_allowed_by_keyboard_once(
    asking: Asking, desk: Desk
) -> None:
    ask(desk)
    desk.page.reload()
    card = desk.page.get_by_role("group", name="“enter” of the server “log”")
    expect(card).to_be_visible(timeout=30_000)
    expect(card).to_contain_text('"pump": "Halden\\u202e<b>"')
    path, call = asking.waiting()
    card.get_by_label("What it would be called with").focus()
    desk.page.keyboard.press("Tab")
    expect(card.get_by_role("button", name="Allow")).to_be_focused()
    desk.page.keyboard.press("Enter")
    expect(card.get_by_role("status")).to_have_text("Allowed")
    expect(card.get_by_role("button")).to_have_count(0)
    assert asking.decide(path, call["id"], approve=False).status_code == 404
    expect(desk.page.get_by_role("button", name="Send")).to_be_visible(timeout=60_000)
    expect(desk.page.locator(".ra-prose").last).to_contain_text("entered Halden")
    desk.page.reload()
    expect(card.get_by_role("status")).to_have_text("Allowed", timeout=30_000)
    assert not desk.problems


def test_a_call_that_was_decided_elsewhere_says_so_and_the_page_can_deny_and_stop(asking: Asking, desk: Desk) -> None:
    ask(desk)
    path, call = asking.waiting()
    assert (call["tool"], call["server"]) == ("log__enter", "log")
    assert asking.decide(path, call["id"], approve=False).is_success
    card = desk.page.get_by_role("group", name="enter")
    expect(card.get_by_role("status")).to_have_text("Denied, decided elsewhere")
    expect(card.get_by_role("button")).to_have_count(0)
    expect(desk.page.locator(".ra-prose").last).to_contain_text("the call was denied", timeout=60_000)

    desk.page.get_by_role("button", name="New conversation").click()
    ask(desk)
    path, call = asking.waiting()
    card.get_by_role("button", name="Deny").click()
    expect(card.get_by_role("status")).to_have_text("Denied")
    wait_until(lambda: asking.http.get(path).json()["status"] == "completed", 60)
    assert "the call was denied" in asking.http.get(path).json()["answer"]["answer"]

    desk.page.get_by_role("button", name="New conversation").click()
    ask(desk)
    path, _ = asking.waiting()
    desk.page.get_by_role("button", name="Stop").click()
    expect(card.get_by_role("status")).to_have_text("Not decided before the run ended")
    wait_until(lambda: asking.http.get(path).json()["status"] == "cancelled", 30)
