"""The web page, mounted at / of the gateway's app, in the same process and on the same loop."""

from __future__ import annotations

from pathlib import Path

import nicegui
from fastapi import FastAPI
from nicegui import ui
from nicegui.client import ClientConnectionTimeout
from nicegui.storage import Storage

from readahead_platform.gateway.context import GatewayContext
from readahead_platform.web.elements import FAVICON
from readahead_platform.web.headers import PageHeaders
from readahead_platform.web.page import Page, tab_of_client
from readahead_platform.web.secret import storage_folder, storage_secret
from readahead_platform.web.sign_in_links import SignInLinks
from readahead_platform.web.sign_in_page import LINK_USED, build_sign_in
from readahead_platform.web.theme_button import apply_theme
from readahead_platform.web.visitor import sign_in, visitor_of_session

_ASSETS = Path(__file__).parent / "assets"
_CONNECT_S = 30.0
_TAB_AGE_S = 24 * 3600.0
"""Seconds after which a closed tab's conversations are forgotten."""
_SESSION_COOKIE = {"session_cookie": "readahead_session", "same_site": "strict", "max_age": 30 * 24 * 3600}


def mount(app: FastAPI, context: GatewayContext) -> SignInLinks:
    """Adds the page to the app, after every other route: it answers for all paths that are left.

    Returns:
        The maker of links that sign a browser in, for whoever prints the page's address.
    """
    home, links = context.settings.home, SignInLinks()
    register(context, links)
    # Class attributes, because NiceGUI reads them from the class: sessions hold keys and belong into our home.
    Storage.path = storage_folder(home)
    Storage.max_tab_storage_age = _TAB_AGE_S
    nicegui.app.add_middleware(PageHeaders)
    ui.run_with(
        app,
        mount_path="/",
        title="Readahead",
        favicon=FAVICON,
        language="en-US",
        tailwind=False,
        storage_secret=storage_secret(home),
        session_middleware_kwargs=_SESSION_COOKIE,
        show_welcome_message=False,
    )
    return links


def register(context: GatewayContext, links: SignInLinks) -> None:
    """Declares the page's one route."""
    head = f"<style>{_asset('style.css')}</style><script>{_asset('page.js')}</script>"

    @ui.page("/")
    async def index(link: str = "") -> None:
        ui.add_head_html(head)
        if link:
            await _redeem(context, links, link)
            return
        visitor = await visitor_of_session(context)
        if visitor is None:
            apply_theme()
            build_sign_in(context)
            return
        try:
            await ui.context.client.connected(timeout=_CONNECT_S)
        except ClientConnectionTimeout:
            return  # a reader without a websocket (a crawler, a preview) sees nothing that needs a tenant
        await Page(visitor, tab_of_client()).open()


async def _redeem(context: GatewayContext, links: SignInLinks, link: str) -> None:
    api_key = links.redeem(link)
    if api_key is not None and await sign_in(context, api_key):
        ui.navigate.to("/")
    else:
        apply_theme()
        build_sign_in(context, LINK_USED)


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")
