"""One service for all browser tests, started as a user starts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.driving import CHROMIUM, Desk, chromium
from tests.platform.running import ROOT, RunningReadahead, running_readahead


@pytest.fixture(scope="session")
def service(
    tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path, minilm_path: Path
) -> Iterator[RunningReadahead]:
    """`readahead up` with the sample documents."""
    models = smollm2_path.parents[1] if smollm2_path.is_file() else smollm2_path.parent
    home = tmp_path_factory.mktemp("browser-home")
    with running_readahead(home, models, "--samples", str(ROOT / "sample_docs")) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}")
    with chromium() as running:
        yield running


@pytest.fixture
def desk(service: RunningReadahead, browser: Browser) -> Iterator[Desk]:
    """A tab of a new visitor, 1440 by 900."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    yield Desk(context.new_page(), service.url)
    context.close()


@pytest.fixture
def phone(service: RunningReadahead, browser: Browser) -> Iterator[Desk]:
    """A tab on a narrow touch screen in the dark."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark", has_touch=True)
    yield Desk(context.new_page(), service.url)
    context.close()
