"""The web page over a real library, without a browser: what somebody reads when something goes wrong."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest
from nicegui import ElementFilter, ui
from nicegui.elements.upload_files import SmallFileUpload
from nicegui.storage import Storage
from nicegui.testing import User, user_simulation

from readahead_agents.errors import LanguageModelUnavailable
from readahead_agents.llm.scripted import ScriptedCall
from readahead_platform.web.app import register
from readahead_platform.web.sign_in_links import SignInLinks
from tests.platform.gateway import Gateway
from tests.retrieval import library_parts
from tests.retrieval import pdf_samples as samples
from tests.retrieval.reading import endless_pdf

TENANT = "acme"


@pytest.fixture
def links() -> SignInLinks:
    return SignInLinks()


@pytest.fixture
async def user(
    gateway: Gateway, links: SignInLinks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[User]:
    monkeypatch.setattr(Storage, "path", tmp_path / "web")
    async with user_simulation(lambda: None) as simulated:
        register(gateway.context, links)
        yield simulated


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what the page shows has no event for tests
            await asyncio.sleep(0.02)


async def sees(user: User, text: str) -> None:
    await user.should_see(text, retries=200)


def shown_buttons(user: User) -> set[str]:
    with user:
        return {button.text for button in ElementFilter(kind=ui.button) if button.visible}


async def signed_in(user: User, gateway: Gateway, links: SignInLinks) -> None:
    await user.open(links.path(gateway.key))
    await user.open("/")
    await sees(user, "Knowledge bases")


async def never(_call: ScriptedCall) -> None:
    """Holds a reply for as long as nobody ends it."""
    await asyncio.Event().wait()


async def ask(user: User, question: str) -> None:
    """As a person does: once the field may be typed into."""
    await until(lambda: all(field.enabled for field in user.find(ui.textarea).elements))
    user.find(ui.textarea).elements.copy().pop().value = question
    user.find("Send").click()


async def upload(user: User, path: Path) -> None:
    data = await asyncio.to_thread(path.read_bytes)
    await (
        user.find(ui.upload).elements.copy().pop().handle_uploads([SmallFileUpload(path.name, "application/pdf", data)])
    )


async def test_a_wrong_key_is_refused_in_words_and_the_right_one_opens_the_page(gateway: Gateway, user: User) -> None:
    await user.open("/")
    user.find(ui.input).type("sk-ra-wrong")
    user.find("Sign in").click()
    await sees(user, "unknown or was revoked")
    user.find(ui.input).clear().type(gateway.key)
    user.find("Sign in").click()
    await sees(user, "Make a knowledge base first")


async def test_a_sign_in_link_opens_the_page_only_once(gateway: Gateway, user: User, links: SignInLinks) -> None:
    path = links.path(gateway.key)
    await user.open(path)
    await user.open("/")
    await sees(user, "Knowledge bases")
    await user.open(path)
    await sees(user, "used already or is too old")


async def test_a_knowledge_base_is_created_once(gateway: Gateway, user: User, links: SignInLinks) -> None:
    await signed_in(user, gateway, links)
    await sees(user, "Create")
    for expected in ("Drop PDFs anywhere", "exists"):
        user.find(marker="New knowledge base").click()
        user.find(kind=ui.input, content="Name").clear().type("papers")
        user.find("Create").click()
        await sees(user, expected)
    assert [kb.name for kb in await gateway.context.library.list_kbs(TENANT)] == ["papers"]


async def test_another_tenant_is_never_shown(gateway: Gateway, user: User, links: SignInLinks) -> None:
    await gateway.context.library.create_kb("globex", "secret plans")
    await gateway.context.library.create_kb(TENANT, "own plans")
    await signed_in(user, gateway, links)
    await sees(user, "own plans")
    await user.should_not_see("secret plans")


async def test_an_empty_knowledge_base_answers_with_one_sentence(
    gateway: Gateway, user: User, links: SignInLinks
) -> None:
    await gateway.context.library.create_kb(TENANT, "empty")
    await signed_in(user, gateway, links)
    await ask(user, "What weighs the pump?")
    await sees(user, "no searchable document")
    await user.should_not_see("Traceback")


async def test_an_upload_is_read_and_answered_with_a_citation(
    gateway: Gateway, user: User, links: SignInLinks, manual: Path
) -> None:
    await gateway.context.library.create_kb(TENANT, "pumps")
    gateway.llm.script = ["The Halden pump weighs 41 kilograms without its frame."]
    await signed_in(user, gateway, links)
    await upload(user, manual)
    await sees(user, "3 pages")
    await ask(user, "How many kilograms does the Halden pump weigh?")
    await sees(user, "p. 1")
    await user.should_see("Search")
    user.find(marker="source-1").click()
    await sees(user, "page 1 of 3")


async def test_the_page_of_a_deleted_document_says_so_and_keeps_the_quote(
    gateway: Gateway, user: User, links: SignInLinks, manual: Path
) -> None:
    kb = await gateway.context.library.create_kb(TENANT, "pumps")
    document = await library_parts.add(gateway.context.library, kb.id, manual, tenant=TENANT)
    gateway.llm.script = ["The Halden pump weighs 41 kilograms without its frame."]
    await signed_in(user, gateway, links)
    await ask(user, "How many kilograms does the Halden pump weigh?")
    await sees(user, "p. 1")
    await gateway.context.library.remove_document(TENANT, document.id)
    user.find(marker="source-1").click()
    await sees(user, "This document was deleted")
    await user.should_see("weighs 41 kilograms")


async def test_a_file_that_is_no_pdf_says_so(gateway: Gateway, user: User, links: SignInLinks, tmp_path: Path) -> None:
    await gateway.context.library.create_kb(TENANT, "pumps")
    await signed_in(user, gateway, links)
    (tmp_path / "page.pdf").write_text("<!doctype html><html></html>")
    await upload(user, tmp_path / "page.pdf")
    await sees(user, "not a PDF")


async def test_a_locked_file_asks_for_its_password_and_opens_with_it(
    gateway: Gateway, user: User, links: SignInLinks, manual: Path, tmp_path: Path
) -> None:
    kb = await gateway.context.library.create_kb(TENANT, "pumps")
    await signed_in(user, gateway, links)
    await upload(user, samples.locked(tmp_path / "locked.pdf", manual, user="open sesame", owner="owner"))
    await sees(user, "Unlock")
    (locked,) = await gateway.context.library.attachments(TENANT, kb.id)
    await gateway.context.library.set_attributes(TENANT, kb.id, locked.file_id, {"year": 2026.0})
    user.find(kind=ui.input, content="Password").type("open sesame")
    user.find("Unlock").click()
    await sees(user, "3 pages")
    (opened,) = await gateway.context.library.attachments(TENANT, kb.id)
    assert opened.document.state == "searchable"
    # It is the same document: what cites it and what is known of it stays.
    assert (opened.document.id, dict(opened.attributes)) == (locked.document.id, {"year": 2026.0})


async def test_reading_is_stopped_and_taken_up_again(
    gateway: Gateway, user: User, links: SignInLinks, tmp_path: Path
) -> None:
    kb = await gateway.context.library.create_kb(TENANT, "pumps")
    await signed_in(user, gateway, links)
    await upload(user, endless_pdf(tmp_path / "long.pdf", pages=3))
    await sees(user, "Reading page")
    user.find(marker="Stop reading").click()
    await sees(user, "Cancelled")
    (stopped,) = await gateway.context.library.list_documents(TENANT, kb.id)
    assert stopped.state == "cancelled"
    user.find("Try again").click()
    await sees(user, "Reading page")
    (again,) = await gateway.context.library.list_documents(TENANT, kb.id)
    assert again.id == stopped.id


async def test_a_document_that_an_older_version_read_is_shown_as_outdated_and_read_anew(
    gateway: Gateway, user: User, links: SignInLinks, manual: Path, tmp_path: Path
) -> None:
    library = gateway.context.library
    kb = await library.create_kb(TENANT, "pumps")
    document = await library_parts.add(library, kb.id, manual, tenant=TENANT)
    more = samples.write_pdf(tmp_path / "more.pdf", samples.lines("It has a frame."))
    other = await library_parts.add(library, kb.id, more, tenant=TENANT)
    path = await library.files.path(TENANT, document.file_id)
    whole = await asyncio.to_thread(path.read_bytes)
    with closing(sqlite3.connect(gateway.context.settings.home / "readahead.db")) as database, database:
        database.execute("update documents set reader = 0 where id = ?", [document.id])
    await signed_in(user, gateway, links)
    await sees(user, "Outdated: read by an older version.")
    await asyncio.to_thread(path.write_bytes, b"%PDF-1.7 and no more")
    user.find("Read anew").click()
    await sees(user, "manual.pdf stays as it was")
    await asyncio.to_thread(path.write_bytes, whole)
    await until(lambda: "Read anew" in shown_buttons(user))
    user.find("Read anew").click()
    await until(lambda: "Read anew" not in shown_buttons(user))
    await sees(user, "3 pages")
    assert "Read anew" not in shown_buttons(user)
    documents = {one.id: one for one in await library.list_documents(TENANT, kb.id)}
    assert not documents[document.id].outdated
    assert documents[document.id].revision > document.revision
    assert documents[other.id] == other, "what is not outdated is left alone"


async def test_a_file_of_a_name_that_is_there_may_take_its_place(
    gateway: Gateway, user: User, links: SignInLinks, manual: Path, tmp_path: Path
) -> None:
    library = gateway.context.library
    kb = await library.create_kb(TENANT, "pumps")
    old = await library_parts.add(library, kb.id, manual, tenant=TENANT)
    await signed_in(user, gateway, links)
    await upload(user, manual)  # the same bytes are no new version
    await sees(user, "here already")
    new = samples.write_pdf(tmp_path / manual.name, samples.lines("The Halden pump weighs 44 kilograms."))
    uploaded = asyncio.create_task(upload(user, new))
    await sees(user, "Replace the manual.pdf that is there?")
    assert [one.id for one in await library.list_documents(TENANT, kb.id)] == [old.id]
    user.find(kind=ui.button, content="Replace").click()
    await uploaded
    await sees(user, "1 page ·")
    await user.should_not_see("3 pages", retries=200)
    (now,) = await library.list_documents(TENANT, kb.id)
    assert now.id != old.id


async def test_stop_ends_the_model_and_keeps_what_was_written(
    gateway: Gateway, user: User, links: SignInLinks, manual: Path
) -> None:
    kb = await gateway.context.library.create_kb(TENANT, "pumps")
    await library_parts.add(gateway.context.library, kb.id, manual, tenant=TENANT)
    gateway.llm.hold = never
    await signed_in(user, gateway, links)
    await ask(user, "How many kilograms does the Halden pump weigh?")
    await until(lambda: gateway.llm.running == 1)
    user.find("Stop").click()
    await until(lambda: gateway.llm.running == 0)
    assert gateway.llm.abandoned == 1
    await sees(user, "Stopped")


async def test_leaving_the_page_ends_the_model(gateway: Gateway, user: User, links: SignInLinks, manual: Path) -> None:
    kb = await gateway.context.library.create_kb(TENANT, "pumps")
    await library_parts.add(gateway.context.library, kb.id, manual, tenant=TENANT)
    gateway.llm.hold = never
    await signed_in(user, gateway, links)
    await ask(user, "How many kilograms does the Halden pump weigh?")
    await until(lambda: gateway.llm.running == 1)
    assert user.client is not None
    user.client.delete()
    await until(lambda: gateway.llm.running == 0)


async def test_a_reload_does_not_end_an_answer(gateway: Gateway, user: User, links: SignInLinks, manual: Path) -> None:
    kb = await gateway.context.library.create_kb(TENANT, "pumps")
    await library_parts.add(gateway.context.library, kb.id, manual, tenant=TENANT)
    go_on = asyncio.Event()

    async def hold(_call: ScriptedCall) -> None:
        await go_on.wait()

    gateway.llm.script = ["The Halden pump weighs 41 kilograms without its frame."]
    gateway.llm.hold = hold
    await signed_in(user, gateway, links)
    await ask(user, "How many kilograms does the Halden pump weigh?")
    await until(lambda: gateway.llm.running == 1)
    left = user.client
    assert left is not None
    await signed_in(user, gateway, links)
    await sees(user, "How many kilograms")
    left.delete()
    go_on.set()
    await sees(user, "p. 1")
    await user.should_not_see("Stopped")


async def test_a_model_that_is_away_is_told_in_one_sentence(
    gateway: Gateway, user: User, links: SignInLinks, manual: Path
) -> None:
    kb = await gateway.context.library.create_kb(TENANT, "pumps")
    await library_parts.add(gateway.context.library, kb.id, manual, tenant=TENANT)
    gateway.llm.script = [LanguageModelUnavailable("The model is starting again; ask in a moment.")]
    await signed_in(user, gateway, links)
    await ask(user, "How many kilograms does the Halden pump weigh?")
    await sees(user, "ask in a moment")


async def test_a_key_that_may_only_read_changes_nothing_on_the_page(
    gateway: Gateway, user: User, links: SignInLinks, manual: Path
) -> None:
    library = gateway.context.library
    kb = await library.create_kb(TENANT, "pumps")
    document = await library_parts.add(library, kb.id, manual, tenant=TENANT)
    reading, _ = await gateway.context.tenants.create_key(TENANT, scopes=["read"])
    await user.open(links.path(reading))
    await user.open("/")
    await sees(user, "3 pages")

    async def is_refused() -> None:
        await sees(user, "may only read")
        user.notify.messages.clear()

    user.find(marker="New knowledge base").click()
    user.find(kind=ui.input, content="Name").type("more")
    user.find("Create").click()
    await is_refused()
    for marker in ("Delete this knowledge base", "Delete manual.pdf"):
        user.find(marker=marker).click()
        await is_refused()
    await upload(user, manual)
    await is_refused()
    assert [each.name for each in await library.list_kbs(TENANT)] == ["pumps"]
    assert [each.id for each in await library.list_documents(TENANT, kb.id)] == [document.id]


async def test_a_revoked_key_ends_an_open_page(gateway: Gateway, user: User, links: SignInLinks) -> None:
    await gateway.context.library.create_kb(TENANT, "pumps")
    await signed_in(user, gateway, links)
    for key in await gateway.context.tenants.list_keys(TENANT):
        await gateway.context.tenants.revoke_key(key.id, TENANT)
    await ask(user, "Anything?")
    await sees(user, "was revoked")
    assert not gateway.llm.calls
    await user.open("/")
    await sees(user, "Sign in")
