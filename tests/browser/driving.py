"""Chromium, and short ways to do with the page what a person does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
ANSWER_MS = 150_000
"""A 135M model beside other work on two cores."""


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Desk:
    """A browser tab on the page of a running service, and what it complained of."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    """Names of knowledge bases to be cleaned up."""

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._note_error)
        self.page.on("request", lambda request: self._note_elsewhere(request.url))

    def _note_error(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.problems.append(message.text)

    def _note_elsewhere(self, url: str) -> None:
        if not url.startswith((self.url, self.url.replace("http", "ws", 1), "data:", "blob:")):
            self.problems.append(f"asked elsewhere: {url}")

    def sign_in(self, api_key: str) -> None:
        self.page.goto(self.url)
        self.page.get_by_label("API key").fill(api_key)
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_label("Your question")).to_be_visible(timeout=30_000)

    def create_knowledge_base(self, name: str) -> None:
        field_ = self.page.get_by_label("Name", exact=True)
        if not field_.is_visible():
            self.page.get_by_role("button", name="New knowledge base").click()
        self.created.append(name)
        field_.fill(name)
        self.page.keyboard.press("Enter")
        expect(self.page.locator(".ra-top__title")).to_have_text(name)

    def upload(self, *paths: Path) -> None:
        self.page.set_input_files("input[type=file]", list(paths))

    def wait_until_read(self, name: str, pages: int) -> None:
        row = self.page.get_by_role("listitem").filter(has_text=name)
        expect(row).to_contain_text(f"{pages} page", timeout=ANSWER_MS)
        expect(row).to_contain_text("passage")

    def ask(self, question: str) -> None:
        """Types, presses Enter and waits for the answer's end."""
        self.page.get_by_label("Your question").fill(question)
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_role("button", name="Stop")).to_be_visible()
        expect(self.page.get_by_role("button", name="Send")).to_be_visible(timeout=ANSWER_MS)

    def open_source(self, document: str, label: str) -> None:
        self.page.locator(".ra-chip").filter(has_text=document).filter(has_text=f"p. {label}").last.click()
        expect(self.page.locator(".ra-viewer")).to_be_visible()
        self.page.wait_for_function("document.querySelector('.ra-viewer__image').naturalWidth > 0")

    def page_image(self) -> Image.Image:
        """The cited page as the browser got it."""
        src = self.page.locator(".ra-viewer__image").get_attribute("src")
        assert src is not None
        answer = self.page.request.get(f"{self.url}{src}")
        assert answer.ok, answer.status
        return Image.open(io.BytesIO(answer.body())).convert("RGB")


def highlighted_rows(image: Image.Image) -> tuple[float, float]:
    """Where the highlight begins and ends, as fractions of the page's height."""
    red, _, blue = image.split()
    rows = [
        y
        for y in range(image.height)
        if sum(r - b > 60 for r, b in zip(_row(red, y), _row(blue, y), strict=True)) > image.width * 0.02
    ]
    assert rows, "nothing is highlighted"
    return rows[0] / image.height, rows[-1] / image.height


def _row(channel: Image.Image, y: int) -> bytes:
    return channel.crop((0, y, channel.width, y + 1)).tobytes()
