"""Rules are asked for by the number of an article, which as a number is as common as any."""

from __future__ import annotations

from pathlib import Path

from readahead_retrieval.index.lexical import LexicalIndex, LexicalWriter


def test_an_article_is_found_by_its_number_among_pages_full_of_numbers(tmp_path: Path) -> None:
    writer = LexicalWriter(tmp_path / "lexical")
    for number in range(1, 60):
        text = (
            f"제{number}조(규칙) 모든 회원은 {60 - number}일 안에 {number + 7}번 신청할 수 있다. 법제처 {number % 14}"
        )
        writer.add(number, "doc", text)
    writer.finish()
    index = LexicalIndex(tmp_path / "lexical")
    for number in (2, 12, 47):
        assert index.search(f"제{number}조의 내용은 무엇인가요?", 3)[0].chunk_id == number
