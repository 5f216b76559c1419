"""Curves as SVG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from readahead_serving.bench.curves.curve import Curve
from readahead_serving.errors import BenchFailed

_COLUMNS = 2
_WIDTH, _HEIGHT = 5.0, 3.2
"""Inches of one plot."""


def plot(curves: Sequence[Curve], file: Path) -> None:
    """All curves in one picture, each from zero, so that none looks steeper than it is.

    Raises:
        BenchFailed: matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BenchFailed("Plots need matplotlib: pip install 'readahead[bench]'.") from error
    rows = -(-len(curves) // _COLUMNS)
    # A fixed salt and no date, so that the same figures give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "readahead", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(_COLUMNS * _WIDTH, rows * _HEIGHT), layout="constrained")
        for axes, curve in zip(figure.subplots(rows, _COLUMNS, squeeze=False).flat, curves, strict=False):
            axes.plot(*zip(*curve.points, strict=True), marker="o", markersize=4, linewidth=1.5)
            axes.set(title=curve.title, xlabel=curve.x, ylabel=curve.y)
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)
        for axes in figure.axes[len(curves) :]:
            axes.remove()
        figure.savefig(file, format="svg", metadata={"Date": None})
