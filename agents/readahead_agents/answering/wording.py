"""What the service says itself, around the words of documents and of models, in the language of the question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

SYLLABLE = 2
"""Letters of an alphabet that a Korean syllable stands for."""

_HANGUL = re.compile(r"[가-힣]")
_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[A-Za-z]")
_QUOTED = re.compile(r"“[^”]*”|‘[^’]*’|\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)|「[^」]*」|『[^』]*』|«[^»]*»")
_FIELD = re.compile(r"\{\w+\}")


@dataclass(frozen=True, slots=True)
class Wording:
    """The sentences of one language; what stands in braces is filled in."""

    page: str
    pages: str
    quoted: str
    and_quoted: str
    """Before a second quotation."""
    closest: str
    """Before a quotation behind an answer that lacks what was asked for."""
    closest_quoted: str
    """Before a quotation that may be from beside the matter."""
    not_covered: str
    not_told: str
    """Where passages are near enough to be asked about, and do not tell."""
    no_page: str
    """Of a page that the document which the question names does not have."""
    nearest: str
    doubtful: str
    unmentioned: str
    unlisted: str
    """Where the passages have others of the kind that is asked for."""
    untold: str
    """Of one side of a comparison."""
    left_out: str
    """Of sentences of the model; `left_out_one` of a single one."""
    left_out_one: str
    no_table: str
    more_tables: str
    failed: str
    tells: str
    """What a tool of another server tells."""

    def unmentioned_names(self, shown: Sequence[str]) -> str:
        """That no passage found mentions these names; empty where there is none."""
        return self.unmentioned.format(names=", ".join(f"“{name}”" for name in shown)) if shown else ""

    def withheld(self, sentences: int) -> str:
        """How many sentences of the model were left out; empty where none was."""
        if not sentences:
            return ""
        return self.left_out_one if sentences == 1 else self.left_out.format(count=sentences)


ENGLISH = Wording(
    page="page {first}",
    pages="pages {first}–{last}",
    quoted="Quoted from {where}:",
    and_quoted="And {where}:",
    closest="The closest passage, in {where}:",
    closest_quoted="The closest passage, quoted from {where}:",
    not_covered="This is not in the documents of “{kb}”.",
    not_told="The passages found do not tell this.",
    no_page="There is no page {page} in {document}.",
    nearest="The nearest pages are: {pages}.",
    doubtful="The documents may not answer this.",
    unmentioned="No passage found mentions {names}.",
    unlisted="No passage found in “{kb}” mentions “{name}”; those found name {others}.",
    untold="The documents do not tell of {side}.",
    left_out="{count} sentences of the model's answer left out, as no passage supports it.",
    left_out_one="1 sentence of the model's answer left out, as no passage supports it.",
    no_table="There is no table on the pages found.",
    more_tables="{count} more tables were left out.",
    failed="Step {step} ({tool}) failed: {reason}",
    tells="{tool} tells: “{text}”",
)
KOREAN = Wording(
    page="{first}쪽",
    pages="{first}–{last}쪽",
    quoted="다음 내용을 {where}에서 인용합니다:",
    and_quoted="그리고 {where}:",
    closest="가장 가까운 구절({where}):",
    closest_quoted="가장 가까운 구절을 {where}에서 인용합니다:",
    not_covered="“{kb}”의 문서에는 이 내용이 없습니다.",
    not_told="찾은 구절에는 이 내용이 나오지 않습니다.",
    no_page="{document}에는 {page}쪽이 없습니다.",
    nearest="가장 가까운 쪽: {pages}.",
    doubtful="문서에 이 질문의 답이 없을 수 있습니다.",
    unmentioned="찾은 구절에는 {names}에 관한 언급이 없습니다.",
    unlisted="“{kb}”에서 찾은 구절에는 “{name}”에 관한 언급이 없고, {others}만 나옵니다.",
    untold="문서에는 {side}에 관한 내용이 없습니다.",
    left_out="뒷받침하는 구절이 없어 모델의 답변에서 문장 {count}개를 뺐습니다.",
    left_out_one="뒷받침하는 구절이 없어 모델의 답변에서 문장 1개를 뺐습니다.",
    no_table="찾은 쪽에는 표가 없습니다.",
    more_tables="표 {count}개를 더 뺐습니다.",
    failed="{step} 단계({tool})가 실패했습니다: {reason}",
    tells="{tool}의 결과: “{text}”",
)
_ALL = (ENGLISH, KOREAN)


def wording_of(question: str) -> Wording:
    """That of the question's language where we have it, else English. Names of products and units are Latin in a
    Korean question too, so the longer part of it tells; what it quotes is in the language of the documents."""
    own = _QUOTED.sub(" ", question)
    asked = own if _LETTER.search(own) else question
    korean = SYLLABLE * len(_HANGUL.findall(asked))
    return KOREAN if korean > len(_LATIN.findall(asked)) else ENGLISH


def _beginning(template: str) -> str:
    return re.escape(template[: template.index("{where}")].rstrip(" ("))


def _whole(template: str) -> str:
    return ".*?".join(map(re.escape, _FIELD.split(template)))


LEADS = re.compile(
    "|".join(_beginning(lead) for said in _ALL for lead in (said.quoted, said.closest_quoted, said.closest))
)
"""What quotations are introduced by, as a small model says it after us."""
REFUSAL = re.compile(
    f"^(?:{'|'.join(_whole(refusal) for said in _ALL for refusal in (said.not_covered, said.not_told))}).*",
    re.MULTILINE,
)
"""The line of an answer that says that the documents, or the passages found, do not answer."""
