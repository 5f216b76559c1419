"""The page's line on the whole text, over a real LLM server's packs with a stand-in where a model would compute."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from nicegui import ui
from nicegui.storage import Storage
from nicegui.testing import User, user_simulation

from readahead_platform.gateway.drain import Drain
from readahead_platform.ports import bind_gateway
from readahead_platform.service import serving
from readahead_platform.web.app import register
from readahead_platform.web.sign_in_links import SignInLinks
from readahead_serving.api.app import create_app
from readahead_serving.api.models import LanguageModel, Models
from readahead_serving.settings import ServingSettings
from tests.platform.gateway import Gateway, running_gateway
from tests.platform.packs.asking import ANSWER
from tests.platform.packs.conftest import PackTokenizer
from tests.platform.running import free_port
from tests.retrieval import library_parts
from tests.retrieval import pdf_samples as samples
from tests.serving.packs import shelf_at
from tests.serving.scripted import ScriptedEngine, two_words

TENANT = "acme"


@pytest.fixture
def links() -> SignInLinks:
    return SignInLinks()


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    tokenizer: Any = PackTokenizer()
    port = free_port()
    async with shelf_at(tmp_path / "packs") as bench:
        model = LanguageModel("small", ScriptedEngine(two_words), tokenizer, 4096, bench.shelf)
        app = create_app(ServingSettings(), Models(language=model, expected=("small",)))
        async with (
            serving(app, bind_gateway("127.0.0.1", port), Drain(0.2)),
            running_gateway(tmp_path / "home", llm_url=f"http://127.0.0.1:{port}") as running,
        ):
            running.llm.script = [ANSWER]
            yield running


@pytest.fixture
async def user(
    gateway: Gateway, links: SignInLinks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[User]:
    monkeypatch.setattr(Storage, "path", tmp_path / "web")
    async with user_simulation(lambda: None) as simulated:
        register(gateway.context, links)
        yield simulated


async def test_the_whole_text_is_read_ahead_at_the_press_of_a_button_and_asked(
    gateway: Gateway, user: User, links: SignInLinks, tmp_path: Path
) -> None:
    library = gateway.context.library
    kb = await library.create_kb(TENANT, "manuals")
    path = samples.write_pdf(tmp_path / "pump.pdf", samples.lines(ANSWER))
    await library_parts.add(library, kb.id, path, tenant=TENANT)
    await user.open(links.path(gateway.key))
    await user.open("/")
    await user.should_see("has not read the whole text ahead", retries=200)
    user.find(ui.toggle).elements.copy().pop().value = "cag"
    user.find(ui.textarea).elements.copy().pop().value = "When is the oil of the gearbox changed?"
    user.find("Send").click()
    await user.should_see("have it done below the documents", retries=200)
    user.find("Read it ahead").click()
    await user.should_see("has read the whole text", retries=400)
    user.find(ui.textarea).elements.copy().pop().value = "When is the oil of the gearbox changed?"
    user.find("Send").click()
    await user.should_see("p. 1", retries=200)
    await user.should_see("Whole text", retries=200)
