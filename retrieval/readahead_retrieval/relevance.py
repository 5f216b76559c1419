"""How far passages bear on a question, by meaning and by words: what decides "not in the documents"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from readahead_retrieval.index.analysis import COMMON, terms
from readahead_retrieval.korean import inflected, verb_stems
from readahead_retrieval.types import Evidence

STEM_CHARS = 5
"""Words are compared by their beginnings, so that "leaves" finds "leaving"."""

NEAR = 0.5
NEAR_SHARE = 0.35
"""What a passage with a cosine of `NEAR` counts as holding at least: it says in other words what is asked. Not for
other scripts, which many embedding models do not know: they find all of a language near to all of it."""

# words about documents and about asking; they say nothing of what is asked for
_ASKING = frozenset(
    terms(
        "about all also answer anything brief briefly describe detail different document does doing each every "
        "everything explain file find get give gist happen happens happening have here information key know let like "
        "list main mean mention mentioned mentions many much often one overview pdf please point points say says show "
        "short state states sum summarise summarize summary tell tells text thing things topic use used very want "
        "whole word words"
    )
)
_KOREAN_ASKING = re.compile(
    r"(?<![가-힣])(?:그럼|그러면|그런데|그리고|그래서|그렇다면|아니면)(?![가-힣])|"
    r"몇\s*[가-힣](?:까지|부터|씩|이나|이|에|은|는)?(?![가-힣])|"
    r"무엇\w*|무슨|얼마\w*|언제\w*|어디\w*|누구\w*|누가|어떤|어떻게|왜|몇|며칠|주세요|알려|요약\w*|설명\w*|문서\w*|"
    r"(?:습니까|합니까|입니까|인가요|한가요|하나요|되나요|있나요|는가요|나요|까요|인가|는가|은가)(?=\W|$)"
)
# before another question ("and what does"), and behind the first of two in Korean ("무엇이고")
_NEXT_QUESTION = re.compile(
    r"[,;?]*\s+(?:and\s+|or\s+|but\s+)(?=(?:who|whom|whose|what|which|when|where|why|how|(?:do|does|did|is|are|was|were"
    r"|has|have|had|can|may|must|will)\s)\b)|[;?]\s+|(?<=[가-힣][이하되나는]고)[,]?\s+(?![싶있])",
    re.IGNORECASE,
)
_NAMED = r"[^\W_]*(?:[A-Z\d][A-Z]|\d)[\w-]*"
# "E02 and AH": what one sentence asks of both of them
_TWO_NAMES = re.compile(rf"(?<![\w-])({_NAMED})(?:\s+(?:and|or)\s+|(?:와|과|하고)\s+)({_NAMED}?)(?![A-Za-z\d-])")
_NAME = re.compile(rf"(?<![\w-]){_NAMED}")
_POINTS_BACK = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers|this|that|these|those|there|one|ones|same)\b|그[것건게는의]",
    re.IGNORECASE,
)
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed)$")
_DOUBLED = re.compile(r"([bcdfgmnprt])\1$")
_LAST_VOWEL = re.compile(r"(?<=\w{3})[ey]$")
_HANGUL_WORD = re.compile(r"[가-힣]{3,}")


def key_terms(question: str) -> frozenset[str]:
    """What a question is about: its terms without those of every text and every question, cut to comparable beginnings.

    Of a Korean word only the first two syllables count, as particles and endings follow them.
    """
    asked = _KOREAN_ASKING.sub(" ", question)
    return said_terms(_HANGUL_WORD.sub(lambda word: f" {word.group()[:2]} ", asked))


def said_terms(text: str) -> frozenset[str]:
    """What a text says, to be compared with `key_terms`: scripts without spaces, and Korean, as pairs of characters."""
    return frozenset(map(_stem, filter(_tells, terms(text))))


def inflected_terms(question: str, text: str) -> frozenset[str]:
    """The key terms of the question's Korean verbs of which a text holds another form."""
    stems = {word[:2]: stem for word, stem in verb_stems(question).items()}
    if not stems:
        return frozenset()
    return frozenset(term for term, stem in stems.items() if inflected(stem, text)) & key_terms(question)


def relevance(question: str, passages: Sequence[Evidence]) -> float:
    """0 to 2: of the best passage, the cosine with the question plus the share of the question's key terms it holds.

    Either alone misjudges: an embedding model finds every harbour near every question on harbours, and words alone
    miss what is said in others. Of two questions in one, two passages may each hold one: the lesser of the two counts
    where it is more. A question without key terms ("sum it up") is borne on by whatever there is. Terms in
    a script that no passage is written in cannot be held against them: there the cosine counts twice.
    """
    whole, parts = _best(question, passages), _parts(question)
    return max(whole, min((_best(part, passages) for part in parts), default=0.0))


def _best(question: str, passages: Sequence[Evidence]) -> float:
    asked = key_terms(question)
    held = [said_terms(f"{passage.document} {passage.heading} {passage.text}") for passage in passages]
    comparable = {term for term in asked if any(_same_script(term, said) for said in held)}
    held = [said | inflected_terms(question, passage.text) for passage, said in zip(passages, held, strict=True)]
    return max((_of(asked, comparable, one, said) for one, said in zip(passages, held, strict=True)), default=0.0)


def _parts(question: str) -> list[str]:
    """The questions that one text asks, each in full; none where it asks one, or where they lean on one another."""
    if names := _TWO_NAMES.search(question):
        return [f"{question[: names.start()]}{name}{question[names.end() :]}" for name in names.groups()]
    parts = [part for part in _NEXT_QUESTION.split(question) if part.strip()]
    return parts if len(parts) > 1 and all(map(_stands_alone, parts)) else []


def _stands_alone(part: str) -> bool:
    """A single word is in many a passage; a code is a matter of its own."""
    asked = len(key_terms(part))
    return _POINTS_BACK.search(part) is None and (asked > 1 or (asked == 1 and _NAME.search(part) is not None))


def _of(asked: frozenset[str], comparable: set[str], passage: Evidence, said: frozenset[str]) -> float:
    cosine = max(passage.similarity, 0.0)
    if not asked:
        return 1 + cosine
    if not comparable:
        return 2 * cosine
    share = len(comparable & said) / len(comparable)
    if cosine >= NEAR and all(map(str.isascii, comparable)):
        share = max(share, NEAR_SHARE)
    return cosine + share


def _tells(term: str) -> bool:
    return term not in COMMON and term not in _ASKING and (term.isascii() or len(term) > 1)


def _stem(term: str) -> str:
    """An English word without the usual endings, cut: "opened" and "opens" are "open", "taxis" is "taxi"."""
    if not (term.isascii() and term.isalpha()):
        return term
    stem = _ENDING.sub("", term.removesuffix("s") if term.endswith("is") else term)
    if stem != term and _DOUBLED.search(stem):
        stem = stem[:-1]
    return _LAST_VOWEL.sub(lambda match: match.group().replace("e", "").replace("y", "i"), stem)[:STEM_CHARS]


def _same_script(term: str, others: frozenset[str]) -> bool:
    return any(term.isascii() == other.isascii() for other in others)
