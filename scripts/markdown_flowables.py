"""Turns the small Markdown of `sample_docs/sources/` into reportlab flowables.

Headings, paragraphs, lists, numbered steps, tables, `> ` formulas, and `!name` lines that the caller gives a meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from reportlab.lib import colors
from reportlab.lib.enums import TA_CENTER, TA_JUSTIFY
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.platypus import Flowable, Paragraph, Spacer, Table, TableStyle

Directive = Callable[[str], list[Flowable]]
INK = colors.HexColor("#1c2733")
ACCENT = colors.HexColor("#1f5f6b")
RULE = colors.HexColor("#c3ced6")
BAND = colors.HexColor("#eef3f5")
_PADDING = 4.0


@dataclass(frozen=True, slots=True)
class Look:
    """How one document looks."""

    regular: str = "Helvetica"
    bold: str = "Helvetica-Bold"
    size: float = 10.0
    justified: bool = False

    def style(self, kind: str) -> ParagraphStyle:
        base: dict[str, Any] = {
            "fontName": self.regular,
            "fontSize": self.size,
            "leading": self.size * 1.42,
            "textColor": INK,
        }
        return ParagraphStyle(kind, **{**base, **self._changes(kind)})

    def _changes(self, kind: str) -> dict[str, Any]:
        size, bold = self.size, {"fontName": self.bold, "keepWithNext": True}
        changes: dict[str, dict[str, Any]] = {
            "title": {**bold, "fontSize": size * 2.0, "leading": size * 2.4, "spaceAfter": 4, "textColor": ACCENT},
            "subtitle": {"textColor": colors.HexColor("#5b6b78"), "spaceAfter": size * 1.2},
            "h2": {
                **bold,
                "fontSize": size * 1.35,
                "leading": size * 1.7,
                "spaceBefore": size,
                "spaceAfter": size * 0.4,
            },
            "h3": {**bold, "fontSize": size * 1.08, "spaceBefore": size * 0.6, "spaceAfter": size * 0.2},
            "body": {"spaceAfter": size * 0.6, "alignment": TA_JUSTIFY if self.justified else 0},
            "item": {"leftIndent": size * 1.7, "spaceAfter": size * 0.25},
            "cell": {"fontSize": size * 0.9, "leading": size * 1.2},
            "head": {"fontName": self.bold, "fontSize": size * 0.9, "leading": size * 1.2},
            "formula": {"alignment": TA_CENTER, "spaceBefore": 2, "spaceAfter": size * 0.7},
        }
        return changes[kind]


def inline(text: str) -> str:
    """Markdown's bold and italic as reportlab's tags."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"\*(.+?)\*", r"<i>\1</i>", re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", safe))


def _column_widths(rows: list[list[str]], look: Look, width: float) -> list[float]:
    """As wide as their longest word at least; what is left goes to the columns with the longest texts."""
    size = look.size * 0.9
    columns = [[row[i] for row in rows] for i in range(len(rows[0]))]
    least = [
        max(stringWidth(word, look.bold, size) for text in column for word in text.split()) + 2 * _PADDING + 1
        for column in columns
    ]
    wishes = [min(max(map(len, column)), 42) for column in columns]
    spare = width - sum(least)
    return [narrowest + spare * wish / sum(wishes) for narrowest, wish in zip(least, wishes, strict=True)]


def table(rows: list[list[str]], look: Look, width: float) -> Table:
    """A table whose first row is repeated on every page; columns are as wide as their longest text asks for."""
    cells = [
        [Paragraph(inline(text), look.style("head" if number == 0 else "cell")) for text in row]
        for number, row in enumerate(rows)
    ]
    made = Table(cells, colWidths=_column_widths(rows, look, width), repeatRows=1, spaceAfter=look.size)
    made.setStyle(
        TableStyle(
            [
                ("VALIGN", (0, 0), (-1, -1), "TOP"),
                ("BACKGROUND", (0, 0), (-1, 0), BAND),
                ("LINEBELOW", (0, 0), (-1, -1), 0.5, RULE),
                ("TOPPADDING", (0, 0), (-1, -1), 2.5),
                ("BOTTOMPADDING", (0, 0), (-1, -1), 3.5),
                ("LEFTPADDING", (0, 0), (-1, -1), _PADDING),
                ("RIGHTPADDING", (0, 0), (-1, -1), _PADDING),
            ]
        )
    )
    return made


def _line_kind(line: str) -> str:
    for kind, pattern in (("table", r"\|"), ("item", r"- |\d+\. "), ("blank", r"\s*$")):
        if re.match(pattern, line):
            return kind
    return "line"


def _table_rows(lines: list[str]) -> list[list[str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if set("".join(row)) != {"-"}]


def _item(line: str, look: Look) -> Paragraph:
    mark, text = line.split(" ", 1)
    return Paragraph(inline(text), look.style("item"), bulletText="•" if mark == "-" else mark)


def _line(line: str, look: Look, directives: Mapping[str, Directive]) -> list[Flowable]:
    if line.startswith("!"):
        name, _, argument = line[1:].partition(" ")
        return directives[name](argument)
    for mark, kind in (("### ", "h3"), ("## ", "h2"), ("# ", "title"), ("> ", "formula")):
        if line.startswith(mark):
            return [Paragraph(inline(line.removeprefix(mark)), look.style(kind))]
    return [Paragraph(inline(line), look.style("body"))]


def flowables(text: str, look: Look, width: float, directives: Mapping[str, Directive]) -> Iterator[Flowable]:
    """Yields what `text` says, laid out for columns of `width` points."""
    for kind, group in groupby(text.splitlines(), key=_line_kind):
        lines = list(group)
        if kind == "table":
            yield table(_table_rows(lines), look, width)
        elif kind == "item":
            yield from (_item(line, look) for line in lines)
            yield Spacer(1, look.size * 0.4)
        elif kind == "line":
            for line in lines:
                yield from _line(line, look, directives)
