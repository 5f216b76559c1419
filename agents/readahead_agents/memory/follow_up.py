"""Follow-up questions by rules: whether a question leans on the turns before it, and what it says together with them.

No model is asked. English and Korean; a question in another language leans where it says too little by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from readahead_agents.answering.wording import REFUSAL
from readahead_agents.llm.base import Message
from readahead_agents.memory.unbound import has_unbound_pronoun, without_empty_it
from readahead_retrieval.index.analysis import COMMON, terms
from readahead_retrieval.relevance import key_terms

FEW_WORDS = 2
"""Words that a question must tell at least to stand by itself."""
BESIDE_A_PRONOUN = 3
"""And where a pronoun is in it, which may stand for something that was said before; and in Korean, which leaves out
what was just named."""
MAX_BACK = 3
"""Questions that a follow-up may lean on, each on the one before."""
MAX_NAMES = 4
"""Names of the last answer that are told with a follow-up."""
MAX_CHARS = 1_000
"""A follow-up and its questions are short; a pasted text is neither."""

_WORD = re.compile(r"[\w.-]*\w")
_OPENING = re.compile(
    r"\W*(?:(?:and|but|or|so|also|then|what about|how about|what if|what else|why (?:so|not))\b"
    r"|그럼|그러면|그런데|그리고|그래서|그렇다면|아니면|또\s|또한)",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers|this|that|these|those|ones|there|then|meanwhile|else"
    r"|instead|otherwise|(?:which|that|this|the|other) one|one of|the (?:same|others?|former|latter))\b",
    re.IGNORECASE,
)
_NO_PRONOUN = re.compile(r"\b(?:is|are|was|were|will) there\b|\bthere (?:is|are|was|were|will)\b", re.IGNORECASE)
_KOREAN_NAMED = (
    r"(?:^|\s)(?:그것|그거|그건|그게|그걸|거기|그곳|그쪽|그분|그녀|그들|그의|그는|그가|그를|그에게|이것|이건|이게|여기"
    r"|그 [가-힣]|(?:그런|그러한|해당|방금 말한|앞서 말한) [가-힣])"
)
_KOREAN_PRONOUN = re.compile(rf"{_KOREAN_NAMED}|(?:^|\s)(?:그때|그렇게|그만큼)")
_KOREAN_ELLIPSIS = re.compile(r"(?:[가-힣\d](?:은|는|도)|[가-힣]면)(?:요)?\s*[?？]?\s*$")
_HANGUL = re.compile(r"[가-힣]")
_WHOLE_QUESTION = re.compile(
    r"\W*(?:(?:at|by|from|in|of|on|since|to|under|with)\s+)?(?:who|whom|whose|what|which|when|where|why|how)\b(?!\s+(?:about|if|else)\b)"
    r"|\W*(?:do|does|did|is|are|was|were|has|have|had|can|could|may|must|will|would|shall|should)\s",
    re.IGNORECASE,
)
# with the words of a place or a time before it: "in the harbour of Saltmere" says where, not what
_NAMED = re.compile(
    r"(?P<aside>\b(?:about|after|among|at|before|behind|between|beyond|by|during|for|from|in|inside|near|on|over|per|since"
    r"|through|to|under|until|with|within)\s+(?:[a-z][\w’'-]*\s+){0,4}?)?"
    r"\b(?:[A-Z]{1,3}-?\d[\w-]*|(?!I\b)[A-Z][\w’'-]+)"
)
_STANDS_FOR_NAME = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers|this|that|these|those|there|(?:which|the other) one"
    r"|one of|the (?:same|others?|former|latter))\b"
    rf"|{_KOREAN_NAMED}",
    re.IGNORECASE,
)
"""What a name that the answer brought in may be meant by; "then" and "instead" mean no name."""
# with what the name is one of: "the ferry Marigold"
_NAME = re.compile(r"(?:\b[Tt]he [a-z]{3,} )?[A-Z][\w-]+(?: [A-Z][\w-]*)*|[“\"]([^”\"]{2,40})[”\"]")
_LEAD_IN = re.compile(r"^[^\n“]*(?:“[^”\n]*”[^\n“]*)*:\n(?=“)", re.MULTILINE)
"""Where a quotation is from, as answers say it: the line before it, with a page's printed label in quotes."""
_QUOTATION = re.compile(r"^“(.*)”$", re.MULTILINE)
_COLUMN = re.compile(r"(?:^|(?<=; ))[^:;.]{1,40}: ")
"""What the value of a row stands under."""
_SENTENCE_START = re.compile(r"(?:^|[.!?:;·]\s+)$")


def leans(question: str) -> bool:
    """Whether a question says too little without the turns before it: "And in winter?", "Who makes it?"."""
    if len(question) > MAX_CHARS:
        return False
    if (opening := _OPENING.match(question)) and _names_its_subject(question[opening.end() :]):
        question = question[opening.end() :]
    if _OPENING.match(question) or _KOREAN_PRONOUN.search(question) or _KOREAN_ELLIPSIS.search(question):
        return True
    told = _telling_words(question)
    if told < (BESIDE_A_PRONOUN if _HANGUL.search(question) else FEW_WORDS):
        return True
    kept = _NO_PRONOUN.sub(" ", without_empty_it(question))
    pronoun = _PRONOUN.search(kept)
    if pronoun is None:
        return False
    # a pronoun behind two telling words mostly stands for one of them
    is_early = told < BESIDE_A_PRONOUN or _telling_words(kept[: pronoun.start()]) < FEW_WORDS
    return is_early or has_unbound_pronoun(kept)


def joined(question: str, history: Sequence[Message]) -> str:
    """The questions that it leans on, it, and the names that the last answer brought in.

    The question as it is, where nothing was asked before or all of it is too long.
    """
    before: list[str] = []
    for turn in reversed([turn for turn in history if turn.role == "user"][-MAX_BACK:]):
        before.insert(0, turn.content.strip())
        if not leans(turn.content):
            break
    if not before or before[-1] in question:  # joined before
        return question
    together = " ".join([*before, question.strip()])
    whole = together + _names(question, history, together)
    return next((text for text in (whole, together) if len(text) <= MAX_CHARS), question)


def _names_its_subject(question: str) -> bool:
    """Whether it is a whole question on something that it calls by its name: "how much does the C40 weigh?"."""
    begun = _WHOLE_QUESTION.match(question)
    return begun is not None and any(not each.group("aside") for each in _NAMED.finditer(question, begun.end()))


def _names(question: str, history: Sequence[Message], said: str) -> str:
    """What the last answer named and no question did, in brackets; nothing where it named nothing new, or where the
    question has no word that could stand for a name."""
    last = history[-1]
    if last.role != "assistant" or not _STANDS_FOR_NAME.search(_NO_PRONOUN.sub(" ", question)):
        return ""
    text = _told(last.content[:MAX_CHARS])
    named = [
        _without_common_end(match.group(1) or match.group()) for match in _NAME.finditer(text) if _is_name(match, text)
    ]
    new = [name for name in dict.fromkeys(named) if name and name.casefold() not in said.casefold()]
    return f" ({', '.join(new[:MAX_NAMES])})" if new else ""


def _told(answer: str) -> str:
    """What an answer says by its sentences and its quotations, without where these are from and the names of columns,
    which are the server's words."""
    told = REFUSAL.sub("", _LEAD_IN.sub("", answer))
    return _QUOTATION.sub(lambda quotation: _COLUMN.sub("", quotation.group(1)), told)


def _without_common_end(name: str) -> str:
    """Lines of a page stand behind one another in a quotation: "Gannet Island The"."""
    words = name.split()
    while words and all(term in COMMON for term in terms(words[-1])):
        words.pop()
    return " ".join(words)


def _is_name(match: re.Match[str], text: str) -> bool:
    """A capital letter tells nothing of a sentence's first word; more of them do, figures too, and quotation marks."""
    name = match.group()
    if match.group(1) is not None or not _SENTENCE_START.search(text[: match.start()]):
        return True
    return " " in name or any(map(str.isdigit, name)) or name == text.strip(" .!?")


def _telling_words(text: str) -> int:
    """Words that say what a text is about."""
    return sum(bool(key_terms(word)) for word in _WORD.findall(text))
