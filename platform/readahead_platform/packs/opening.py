"""Packs of knowledge bases with all their parts."""

from __future__ import annotations

from readahead_platform.gateway.llm_client import LlmClient
from readahead_platform.packs.kb_packs import KbPacks
from readahead_platform.packs.unsettled import Unsettled
from readahead_platform.packs.upkeep import PackUpkeep
from readahead_platform.packs.wishes import PackWishes
from readahead_retrieval.library import Library
from readahead_retrieval.store.session import Database


def open_packs(library: Library, llm: LlmClient, database: Database) -> tuple[KbPacks, PackUpkeep]:
    """The packs, and their upkeep, which is to be run: the library tells it what is deleted."""
    wishes, unsettled = PackWishes(database), Unsettled()
    library.on_removal(unsettled.add)
    packs = KbPacks(library, llm, wishes, unsettled)
    return packs, PackUpkeep(library, packs, wishes, unsettled)
