"""Tells what points elsewhere from text: references name the subject in every line, and state nothing about it."""

from __future__ import annotations

import re

from readahead_retrieval.chunking import PATH_SEPARATOR

_MARKS = re.compile(
    r"""https?:|www\.|\bdoi\b|\bISBN\b|\bISSN\b|\bet\ al\b|\bpp?\.|\bvol\.|\beds?\.|\barchived\b|\bretrieved\b
    |\baccessed\b|\(pdf\)|\^|["“][^"”]{8,120}["”]
    |\((?:\d{1,2}\ )?(?:[^\W\d]+\ )?(?:\d{1,2},\ )?(?:19|20)\d\d[a-z]?\)""",
    re.IGNORECASE | re.VERBOSE,
)
"""What references are made of: addresses, numbers of publications, quoted titles, dates in brackets."""

MARKS_SHARE = 0.05
"""One mark in twenty words; running text that cites now and then has fewer than half as many."""
DEMOTION = 0.7


_BACK_MATTER = re.compile(
    r"""(?:[\dIVX]+(?:\.\d+)*[.)]?\s+)?  # numbered or not
    (?:see\ also|references|external\ links|further\ reading|bibliography|notes|notes\ and\ references|sources
    |works\ cited|footnotes|literature\ cited|citations|참고\ ?문헌|각주|외부\ 링크|같이\ 보기
    |参考文献|脚注|関連項目|外部リンク|参考资料|外部链接|literatur|einzelnachweise|weblinks
    |siehe\ auch|références|bibliographie|voir\ aussi|referencias|bibliografía)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Names of sections that point elsewhere."""


def demotion(heading: str, text: str) -> float:
    """What a passage's score is multiplied by: it stays findable for who asks for a source, behind what answers.

    Args:
        heading: The sections it stands under, outermost first.
    """
    return DEMOTION if is_back_matter(heading, text) or is_reference_list(text) else 1.0


def is_back_matter(heading: str, text: str) -> bool:
    """Whether it stands under such a heading, or begins with one."""
    names = [*heading.split(PATH_SEPARATOR), text.split("\n", 1)[0]]
    return any(_BACK_MATTER.fullmatch(name.strip()) for name in names)


def is_reference_list(text: str) -> bool:
    words = len(text.split())
    return words > 0 and len(_MARKS.findall(text)) / words > MARKS_SHARE
