"""Judges sentences on documents that the model has read whole: what one search did not find, another may."""

from __future__ import annotations

import logging

from readahead_agents.answering.support import Judge
from readahead_agents.answering.verdict import Judged, Verdict
from readahead_agents.evidence import EvidenceSource
from readahead_retrieval.errors import RetrievalError

log = logging.getLogger(__name__)

MAX_SEARCHES = 6
"""For one answer."""
PASSAGES = 3
"""That are looked at for one sentence."""
MAX_QUERY_CHARS = 400


class SearchingJudge:
    """A `SentenceJudge` over another: what that finds unsupported is searched for, and judged by what is found.

    Without it an answer from a pack is held against the few passages that were found for the question, and what stands
    elsewhere in the same documents is left out.
    """

    def __init__(self, judge: Judge, source: EvidenceSource, question: str) -> None:
        self._judge = judge
        self._source = source
        self._question = question
        self._left = MAX_SEARCHES

    async def judge(self, sentence: str) -> Judged:
        judged = await self._judge.judge(sentence)
        if judged.verdict is not Verdict.UNSUPPORTED or not self._left:
            return judged
        self._left -= 1
        try:
            found = await self._source.search(sentence[:MAX_QUERY_CHARS], PASSAGES)
        except RetrievalError as error:
            log.warning("A sentence is judged by the passages there are: %s", error.message)
            return judged
        return await Judge(self._source, self._question, found).judge(sentence)
