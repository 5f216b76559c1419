"""What a Korean question and a statement are about: the nouns that the particles of a topic stand behind.

Rules of particles, no dictionary: 은 and 이 stand behind a last consonant, 는 and 가 behind a vowel, so that "있는" and
"국가" are seen to bear none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from readahead_agents.answering.rows import cells, is_row
from readahead_agents.answering.units import Unit

BY_ARTICLE = 0.8
"""What a statement counts that is about something else, in an article about what is asked of."""
OF_ANOTHER = 0.5
"""And in any other place."""

_WORD = re.compile(r"[가-힣A-Za-z0-9]+")
_OPENING = re.compile(r"^\W*(?:그럼|그러면|그런데|그리고|그래서|그렇다면|아니면|또한?)\s+")
_POLITE = re.compile(r"(?<=[은는])요(?=\W*$)")
_OWNED = re.compile(r"([가-힣A-Za-z0-9]+)의\s+([가-힣]+)\W*$")
_BREAK = re.compile(r"[^\w\s]")
# "평일에는" says where and when; what says of a noun which one it is ("정하는", "받은") is a verb
_NO_TOPIC = re.compile(
    r".*(?:에|에서|에게|으로|까지|부터|하|되|려|쓰)[는가]|(?:누구|누|무엇|무어|언제|어디|얼마|몇[가-힣]*)[은는이가]"
    r"|(?:.*[가-힣])?(?:받|얻|같|않|많|높|낮|늦|죽|남|적|넘|맡|찾|읽|앉|입|작|넓|좋|깊)은"
)
# what bears another particle, or an ending, belongs to no noun behind it
_BEARS = re.compile(r".*(?:[을를에로은는도만고면며여서한할된될인]|까지|부터|에서)")
_ARTICLE = re.compile(r"제\s?\d+조(?:의\s?\d+)?\s*(?:\(([^)]*)\))?")
_NUMBERING = re.compile(r"^(?:\s*제\s?\d+조(?:의\s?\d+)?\s*(?:\([^)]*\))?)?[\W\d]*")
_WHO = re.compile(r"누구")
"""The person asked for may be what the answer is about."""
_COMPARED = 2
"""Syllables of a Korean word that the words of a question are found by."""
_FIRST, _LAST_CONSONANTS = 0xAC00, 28


@dataclass(frozen=True, slots=True)
class Subject:
    """What a question asks of: "감사원장의 임기" is a term, of the owner 감사원장."""

    owner: str
    noun: str

    @classmethod
    def of(cls, question: str) -> Self | None:
        """None where no particle tells, as in other languages, and for an article by its number."""
        if _WHO.search(question):
            return None
        asked = _POLITE.sub("", _OPENING.sub("", question))
        found = next(_topics(asked, "은는"), None) or next(_topics(asked, "이가"), None)
        if found is None and (owned := _OWNED.search(asked)) is not None:
            found = list(owned.groups())
        return cls(found[0], found[-1]) if found and _ARTICLE.match(found[0]) is None else None

    def weight(self, unit: Unit) -> float:
        """What a statement counts, by whether it is about this."""
        topics = [] if is_row(unit.text) else list(_topics(unit.text, "은는"))
        if not topics or _are_of(self.owner, topics) or not self._is_misleading(unit.text):
            return 1.0
        if not self._is_over(unit):
            return OF_ANOTHER
        return 1.0 if _are_of(self.noun, topics) else BY_ARTICLE

    def is_of(self, unit: Unit) -> bool:
        """Whether the statement is surely about this."""
        if is_row(unit.text):
            return any(cell.startswith(self.owner) for cell in cells(unit.text))
        return _are_of(self.owner, list(_topics(unit.text, "은는")))

    def is_not_of(self, unit: Unit) -> bool:
        """Whether the statement is about another."""
        return self.weight(unit) == OF_ANOTHER

    def _is_misleading(self, text: str) -> bool:
        """Whether a text has a word like it, in another place than the first or an object's, which a question may put
        first too. What has none answers by its other words, or not at all."""
        words = _WORD.findall(_NUMBERING.sub("", text))
        is_object = any(word.startswith(self.owner) and word[-1] in "을를" for word in words)
        is_first = bool(words) and words[0].startswith(self.owner)
        return not (is_object or is_first) and any(word.startswith(self.owner[:_COMPARED]) for word in words)

    def _is_over(self, unit: Unit) -> bool:
        """Whether the article that the statement stands in, or a heading over it, is about this."""
        if any(word.startswith(self.owner) for word in _WORD.findall(unit.passage.heading)):
            return True
        text = unit.passage.text[: unit.end]
        articles = [match for match in _ARTICLE.finditer(text) if match.start() <= unit.start]
        if not articles:
            return False
        article = articles[-1]
        opening = next(_topics(text[article.end() :], "은는"), [])
        return _are_of(self.owner, [opening, _WORD.findall(article.group(1) or "")])


def _are_of(noun: str, topics: Sequence[Sequence[str]]) -> bool:
    """A longer word for it begins with it, as with what stands behind it; a shorter one is its end: "원장"."""
    return any(word.startswith(noun) or (len(word) > 1 and noun.endswith(word)) for topic in topics for word in topic)


def _topics(text: str, particles: str) -> Iterator[list[str]]:
    """The nouns of each topic, its owners first: "대통령의 임기는" has two."""
    words = list(_WORD.finditer(text))
    for place, word in enumerate(words):
        if not _is_topic(word.group(), particles):
            continue
        nouns = [word.group()[:-1]]
        for before, after in zip(reversed(words[:place]), reversed(words[1 : place + 1]), strict=True):
            if _BREAK.search(text[before.end() : after.start()]) or _BEARS.fullmatch(before.group()):
                break
            nouns.insert(0, before.group().removesuffix("의"))
        yield [noun for noun in nouns if not noun[:1].isdigit() and noun != "그"] or nouns


def _is_topic(word: str, particles: str) -> bool:
    if len(word) < 2 or word[-1] not in particles or _NO_TOPIC.fullmatch(word):
        return False
    behind_consonant = "가" <= word[-2] <= "힣" and (ord(word[-2]) - _FIRST) % _LAST_CONSONANTS > 0
    return not "가" <= word[-2] <= "힣" or behind_consonant == (word[-1] in "은이")
