"""English pronouns that find nothing within their question to stand for.

Rules of binding in a few patterns, without a grammar: a pronoun that is the subject of the question's main clause has
nothing before it that it could mean ("How many screws did they use?"); a head is not what a pronoun in its own
complement means ("the deputy of her office"); and otherwise something must have been named before it that agrees with
it: a name, a noun with its article, a subject. After Chomsky, "Lectures on Government and Binding" (1981), principle B
and the i-within-i condition, as far as words alone show them.
"""

from __future__ import annotations

import re

from readahead_retrieval.index.analysis import COMMON, terms
from readahead_retrieval.relevance import key_terms

_AUXILIARY = (
    r"\b(?:do|does|did|is|are|was|were|has|have|had|can|could|may|might|must|shall|should|will|would)(?:n['’]t)?"
)
_INNER = re.compile(
    rf"\b(?:if|when|where|while|after|before|once|until|because|although|that|who|whom|which|what|how|why)\b|{_AUXILIARY}\b",
    re.I,
)
_OPENING = re.compile(r"\W*(?:\w+\s+)?(?:which|what|whose|whom|who|how|when|where|why)\b", re.I)
_SUBJECT = re.compile(rf"([^,;:]*?){_AUXILIARY} (?:it|they|he|she)\b(?!\s+(?:that|who)\b)", re.I)
_EMPTY_IT = re.compile(
    r"\bit\s+(?:takes?|costs?|needs?|requires?|allowed|permitted|possible|forbidden|necessary|safe|legal|enough|worth)\b"
    r"(?:\s+\S+){0,4}?\s+to\b(.*)",
    re.I | re.S,
)
_WORDS_BEHIND = 3
"""What must be told behind an "it" that means nothing: "How much does it cost to mend?" asks of something."""
_PERSON = re.compile(r"he|him|his|she|her|hers", re.I)
_MANY = re.compile(r"they|them|their|theirs", re.I)
_PRONOUN = re.compile(r"\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers)\b", re.I)
_OWN_HEAD = re.compile(r"(?:\bthe\s+(?:[\w'’-]+\s+){0,2}?)?\b(?!(?:and|or)\b)[\w'’-]+\s+(?:of|about)\s+$", re.I)
_NAME = re.compile(r"(?<=\s)(?!I\b)(?:[A-Z][\w-]*|\w*[A-Za-z]\w*\d\w*|\w*\d\w*[A-Za-z]\w*)")
_DETERMINER = r"an?|the|each|every|any|some|all|both|no|my|our|your|which|whose|few|several|other|another|one|two|three"
_NOUN = re.compile(rf"\b(?:(?:{_DETERMINER})\s+)+([\w'’-]+(?:\s+[\w'’-]+)?)|\bwhat\s+(\w+(?<!s)(?<!ed))\s", re.I)
_BARE_SUBJECT = re.compile(
    rf"(?:{_AUXILIARY}|\b(?:if|when|while|once|where|because|before|after))\s+(?!\w*(?:ed|ing|en)\b)(\w+)", re.I
)
_SOMEBODY = re.compile(r"\b(?:whoever|anyone|anybody|everyone|everybody|someone|somebody|nobody|people|those)\b", re.I)
_PERSONS = re.compile(
    r"\b\w+(?:er|or|ist|ian|ant|ent|man|woman|men|women|ee|ess|person|swain|child|boy|girl|king|queen|captain|guest"
    r"|chief|head|president|clerk|wife|husband|friend|pilot|nurse)s?\b",
    re.I,
)
_PLURAL = re.compile(r"\b[a-z]{2,}s(?<!ss)(?<!us)(?<!is)\b", re.I)
_UNIT = re.compile(
    r"(?:second|minute|hour|day|night|week|month|year|time|metre|meter|kilometre|kilometer|mile|gram|kilogram|litre"
    r"|liter|tonne|ton|degree|percent|crown|dollar|euro|pound|point|word|page)s?",
    re.I,
)
"""What is counted of something, and is nothing that a pronoun goes back to."""
_POINTED_AT = re.compile(
    r"^[^,;:]*\b(?:(?:these|this)\s+(?!\w+ing\b)(?P<noun>[a-z]\w+)|(?:of|in|on|at|for|with|by|under|from|during|to)\s+"
    r"(?:that|those)\s+(?!(?:of|in|for|at|from|on|with|who|which|that|is|are)\b)[a-z]\w+)",
    re.I,
)
_HERE = re.compile(
    r"(?:documents?|files?|handbook|manual|policy|report|text|paper|note|page|book|guide|library|base|collection|year"
    r"|month|week|day|night|season|spring|summer|autumn|winter|morning|afternoon|evening|century|time|way)\b",
    re.I,
)
"""What "this" may stand before without having been spoken of."""


def without_empty_it(question: str) -> str:
    """Without an "it" that means nothing: "How long does it take to cross the bar of the river?"."""
    return _EMPTY_IT.sub(
        lambda match: match.group(1) if len(key_terms(match.group(1))) >= _WORDS_BEHIND else match.group(), question
    )


def has_unbound_pronoun(question: str) -> bool:
    """Whether a pronoun of the question must stand for something that was said before it."""
    text = without_empty_it(question)
    return _points_back(text) or _has_free_subject(text) or _is_first_free(text)


def _points_back(text: str) -> bool:
    """ "this rule", "in that year"."""
    found = _POINTED_AT.search(text)
    return found is not None and not (found.group("noun") and _HERE.match(found.group("noun")))


def _has_free_subject(text: str) -> bool:
    found = _SUBJECT.match(text)
    if found is None:
        return False
    opening = _OPENING.match(found.group(1))
    return _INNER.search(found.group(1), opening.end() if opening else 0) is None


def _is_first_free(text: str) -> bool:
    found = _PRONOUN.search(text)
    if found is None:
        return False
    before = text[: found.start()]
    while head := _OWN_HEAD.search(before):
        before = before[: head.start()]
    return not (_NAME.search(before) or _SOMEBODY.search(before) or _is_named(found.group(), before))


def _is_named(pronoun: str, before: str) -> bool:
    """Whether a noun before it agrees with the pronoun."""
    nouns = [group for match in _NOUN.finditer(before) for group in match.groups() if group]
    nouns += [match.group(1) for match in _BARE_SUBJECT.finditer(before)]
    if _PERSON.fullmatch(pronoun):
        return any(_PERSONS.search(noun) for noun in nouns)
    if _MANY.fullmatch(pronoun):
        several = (word for word in _PLURAL.findall(before) if _says_something(word) and not _UNIT.fullmatch(word))
        return any(several) or any(_PERSONS.search(noun) for noun in nouns)
    return any(_says_something(noun) and not _PLURAL.match(noun) for noun in nouns)


def _says_something(noun: str) -> bool:
    return any(term not in COMMON for term in terms(noun))
