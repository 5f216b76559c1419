"""Browser tabs on the shared service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.browser.driving import CHROMIUM, Desk, chromium
from tests.platform.running import RunningReadahead


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed with the module: as long as it runs, its loop is in the way of asynchronous tests."""
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}")
    with chromium() as running:
        yield running


@pytest.fixture
def desk(readahead_up: RunningReadahead, browser: Browser) -> Iterator[Desk]:
    """A tab of a new visitor, 1440 by 900, in the light."""
    with _tab(readahead_up, browser, 1440, 900, "light") as opened:
        yield opened


@pytest.fixture
def phone(readahead_up: RunningReadahead, browser: Browser) -> Iterator[Desk]:
    """A tab on a narrow touch screen, in the dark."""
    with _tab(readahead_up, browser, 390, 844, "dark") as opened:
        yield opened


@contextmanager
def _tab(
    service: RunningReadahead, browser: Browser, width: int, height: int, scheme: Literal["light", "dark"]
) -> Iterator[Desk]:
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=width < 600
    )
    opened = Desk(context.new_page(), service.url)
    yield opened
    context.close()
    sdk = service.sdk()
    for store in sdk.vector_stores.list():
        if store.name in opened.created:
            sdk.vector_stores.delete(store.id)
