"""The sample documents: made by the script, and what their questions say of them is true."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from functools import cache
from pathlib import Path

import pypdfium2 as pdfium
import pytest

from readahead_retrieval.evaluation.questions import Question, read_questions

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_docs"
NANUM = Path("/usr/share/fonts/truetype/nanum/NanumGothic.ttf")
QUESTIONS = read_questions(SAMPLES / "questions.jsonl")
FOLLOW_UPS = [
    question for name in ("follow_ups", "follow_ups_held_out") for question in read_questions(SAMPLES / f"{name}.jsonl")
]


@cache
def page_texts(path: Path) -> tuple[str, ...]:
    document = pdfium.PdfDocument(path)
    texts = [page.get_textpage().get_text_range() for page in document]
    document.close()
    # PDFium writes a hyphen at a line's end as U+FFFE or U+0002
    return tuple(" ".join(unicodedata.normalize("NFC", re.sub("[\ufffe\x02]\\s*", "", t)).split()) for t in texts)


@cache
def labels(path: Path) -> tuple[str, ...]:
    document = pdfium.PdfDocument(path)
    found = tuple(document.get_page_label(i) for i in range(len(document)))
    document.close()
    return found


def make(out: Path) -> dict[str, Path]:
    script = ROOT / "scripts" / "make_sample_docs.py"
    subprocess.run([sys.executable, str(script), "--out", str(out)], check=True, timeout=120, capture_output=True)
    return {path.name: path for path in out.glob("*.pdf")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    if not NANUM.exists():
        pytest.skip("needs the Debian package fonts-nanum")
    return make(tmp_path_factory.mktemp("made"))


def test_the_committed_documents_are_what_the_script_makes(made: dict[str, Path]) -> None:
    committed = {path.name: path for path in SAMPLES.glob("*.pdf")}
    assert committed.keys() == made.keys()
    for name, path in committed.items():
        # Compressed streams and the font's subset may differ with the versions of zlib and the font; texts may not.
        assert page_texts(path) == page_texts(made[name]), f"{name}: run scripts/make_sample_docs.py"
        assert labels(path) == labels(made[name])


def test_making_them_twice_gives_the_same_bytes(made: dict[str, Path], tmp_path: Path) -> None:
    again = make(tmp_path)
    assert {name: path.read_bytes() for name, path in again.items()} == {n: p.read_bytes() for n, p in made.items()}


@pytest.mark.parametrize("question", [*(q for q in QUESTIONS if not q.unanswerable), *FOLLOW_UPS], ids=lambda q: q.text)
def test_every_answer_stands_on_its_page(question: Question) -> None:
    texts = page_texts(SAMPLES / question.document)
    for answer in question.answers:
        standing = [page for page in question.pages if unicodedata.normalize("NFC", answer) in texts[page - 1]]
        assert standing, f"{answer!r} is on none of the pages {question.pages}"


def test_there_are_questions_of_every_kind() -> None:
    assert len(QUESTIONS) >= 40
    assert len({q.text for q in QUESTIONS}) == len(QUESTIONS)
    assert {q.document for q in QUESTIONS if q.document} == {path.name for path in SAMPLES.glob("*.pdf")}
    assert sum(q.unanswerable for q in QUESTIONS) >= 5
    assert sum(len(q.pages) > 1 for q in QUESTIONS) >= 3
    assert all(not q.pages and not q.answers for q in QUESTIONS if q.unanswerable)


def test_there_are_follow_ups_in_both_languages_and_questions_that_change_the_matter() -> None:
    leaning = [q for q in FOLLOW_UPS if not q.stands_alone]
    assert len(leaning) >= 50 and len(FOLLOW_UPS) - len(leaning) >= 10
    assert sum(q.document == "moonlight-library-ko.pdf" for q in leaning) >= 8
    assert {q.document for q in leaning} == {path.name for path in SAMPLES.glob("*.pdf")}
    assert all(q.history and q.history[-1].role == "assistant" for q in FOLLOW_UPS)


def test_the_scanned_page_has_no_text_layer() -> None:
    typed, scanned = page_texts(SAMPLES / "site-inspection-report.pdf")
    assert len(typed) > 1000
    assert scanned == ""


def test_the_guide_is_long_and_has_roman_front_matter() -> None:
    found = labels(SAMPLES / "saltmere-harbour-handbook.pdf")
    assert len(found) >= 40
    assert found[:6] == ("i", "ii", "iii", "iv", "1", "2")
