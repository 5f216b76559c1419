"""What a person does with the page, in Chromium, on a service with real models."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.driving import ANSWER_MS, Desk, highlighted_rows
from tests.platform.running import ROOT, RunningReadahead
from tests.retrieval import pdf_samples as samples

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

QUESTION = "How many kilograms does the Halden pump weigh?"


@pytest.fixture(scope="module")
def pump_manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pages; the weight stands on the second, near the bottom."""
    return samples.write_pdf(
        tmp_path_factory.mktemp("pump") / "pump-manual.pdf",
        samples.lines(
            "The oil of the gearbox is changed after 600 hours of work.",
            "Use only mineral oil of class 32, about two litres of it.",
        ),
        samples.lines("The Halden pump weighs 41 kilograms without its frame.", y=260),
    )


def test_a_person_uploads_asks_and_sees_the_cited_line(
    readahead_up: RunningReadahead, desk: Desk, pump_manual: Path
) -> None:
    desk.sign_in(readahead_up.api_key)
    desk.create_knowledge_base("pumps")
    desk.upload(pump_manual)
    desk.wait_until_read("pump-manual.pdf", pages=2)
    desk.ask(QUESTION)
    expect(desk.page.locator(".ra-prose").last).to_contain_text("41")
    expect(desk.page.locator(".ra-route").last).to_contain_text("Search")

    desk.open_source("pump-manual.pdf", "2")
    expect(desk.page.locator(".ra-viewer__place")).to_contain_text("page 2 of 2")
    top, bottom = highlighted_rows(desk.page_image())
    line = 1 - 260 / samples.A4[1]
    assert top < line < bottom + 0.005
    assert bottom - top < 0.05

    desk.page.keyboard.press("Escape")
    expect(desk.page.locator(".ra-viewer")).to_be_hidden()
    desk.page.reload()
    expect(desk.page.locator(".ra-question")).to_have_text(QUESTION)
    expect(desk.page.locator(".ra-chip").first).to_be_visible()

    desk.page.get_by_label("Your question").fill("After how many hours is the oil of the gearbox changed?")
    desk.page.keyboard.press("Enter")
    expect(desk.page.get_by_role("button", name="Stop")).to_be_visible()
    desk.page.reload()  # the answer goes on
    expect(desk.page.get_by_role("button", name="Send")).to_be_visible(timeout=ANSWER_MS)
    expect(desk.page.locator(".ra-prose").last).to_contain_text("600", timeout=ANSWER_MS)
    expect(desk.page.get_by_text("Stopped")).to_have_count(0)
    assert not desk.problems


def test_dropped_files_are_added_and_a_bad_one_says_why(
    readahead_up: RunningReadahead, desk: Desk, pump_manual: Path
) -> None:
    desk.sign_in(readahead_up.api_key)
    desk.create_knowledge_base("dropped")
    drop = """async ([name, bytes]) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([new Uint8Array(bytes)], name, { type: "application/pdf" }));
        transfer.items.add(new File(["<!doctype html><html></html>"], "page.pdf", { type: "application/pdf" }));
        document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }"""
    desk.page.evaluate(drop, [pump_manual.name, list(pump_manual.read_bytes())])
    desk.wait_until_read(pump_manual.name, pages=2)
    expect(desk.page.get_by_role("listitem").filter(has_text="page.pdf")).to_contain_text("not a PDF", timeout=30_000)

    desk.page.get_by_role("listitem").filter(has_text="page.pdf").hover()
    desk.page.get_by_role("button", name="Delete page.pdf").click()
    desk.page.get_by_role("button", name="Delete", exact=True).click()
    expect(desk.page.get_by_role("listitem").filter(has_text="page.pdf")).to_have_count(0)


def test_a_phone_shows_one_thing_at_a_time(readahead_up: RunningReadahead, phone: Desk) -> None:
    phone.sign_in(readahead_up.api_key)
    overflow = "document.documentElement.scrollWidth - window.innerWidth"
    assert phone.page.evaluate(overflow) <= 0
    side = phone.page.get_by_role("navigation")
    expect(side).to_be_hidden()
    phone.page.get_by_role("button", name="Knowledge bases and documents").click()
    expect(side).to_be_visible()
    side.get_by_role("button", name="Close").click()
    expect(side).to_be_hidden()

    phone.ask("What torque do the cover screws of the C40 need?")
    phone.page.locator(".ra-chip").first.click()
    expect(phone.page.locator(".ra-viewer")).to_be_visible()
    box = phone.page.locator(".ra-viewer").bounding_box()
    assert box is not None
    assert (box["x"], box["width"]) == (0, 390)
    assert phone.page.evaluate(overflow) <= 0
    assert not phone.problems


def test_the_samples_answer_at_once(readahead_up: RunningReadahead, desk: Desk) -> None:
    desk.sign_in(readahead_up.api_key)
    expect(desk.page.locator(".ra-top__title")).to_have_text("samples")
    expect(desk.page.locator(".ra-suggestion")).to_have_count(4)
    is_unread = shutil.which("tesseract") is None  # a page of the samples is a scan
    expect(desk.page.get_by_text("Without readable text: page 2")).to_have_count(int(is_unread))
    desk.ask("How long does the crossing to Gannet Island take?")
    expect(desk.page.locator(".ra-prose").last).to_contain_text("35 minutes")
    desk.open_source("saltmere-harbour-handbook.pdf", "16")
    expect(desk.page.locator(".ra-viewer__place")).to_contain_text("page 20 of 42")
    if os.environ.get("READAHEAD_WRITE_SCREENSHOTS"):
        desk.page.wait_for_load_state("networkidle")
        desk.page.screenshot(path=ROOT / "docs" / "images" / "screenshot.png")


def test_hostile_names_and_texts_stay_text(readahead_up: RunningReadahead, desk: Desk, tmp_path: Path) -> None:
    """What a name or a page would do is seen by a picture that is asked for, a script that runs, a page that widens."""
    attack = "<img src=nowhere onerror=window.attacked=1>"
    names = [f'"{attack}.pdf', "\u202efdp.exe'onmouseover='window.attacked=1.pdf", f"{'long-' * 40}.pdf"]
    text = f"The gate of the yard opens at 7 {attack} and [closes](javascript:window.attacked=1) at 19."
    paths = [samples.write_pdf(tmp_path / name, samples.lines(text, f"Copy {n}")) for n, name in enumerate(names)]
    desk.sign_in(readahead_up.api_key)
    desk.create_knowledge_base("gates")
    desk.upload(*paths)
    rows = desk.page.locator(".ra-document")
    expect(rows).to_have_count(len(names), timeout=ANSWER_MS)
    expect(desk.page.get_by_text("1 page · 1 passage")).to_have_count(len(names), timeout=ANSWER_MS)
    desk.ask("When does the gate of the yard open?")
    expect(desk.page.locator(".ra-prose").last).to_contain_text("7")
    desk.page.locator(".ra-chip").first.click()
    expect(desk.page.locator(".ra-viewer")).to_be_visible()
    for row in range(len(names)):
        rows.nth(row).hover()
    assert desk.page.evaluate("window.attacked") is None
    assert desk.page.locator("img[src=nowhere]").count() == 0
    assert desk.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert not desk.problems
