"""Pictures of several panels side by side, where matplotlib is installed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.program import is_installed

__all__ = ["Panel", "draw_panels"]


@dataclasses.dataclass
class Panel:
    """One panel.

    Attributes:
        title: Above it.
        x_label: Under it.
        lines: For each label the x and the y values.
        bars: Likewise; drawn as bars of width 1.
        marks: x values of vertical lines, with their texts.
        is_log: Whether the y axis is logarithmic.
    """

    title: str
    x_label: str
    lines: dict[str, tuple[Sequence[float], Sequence[float]]] = dataclasses.field(
        default_factory=dict
    )
    bars: dict[str, tuple[Sequence[float], Sequence[float]]] = dataclasses.field(
        default_factory=dict
    )
    marks: dict[float, str] = dataclasses.field(default_factory=dict)
    is_log: bool = False


def _draw(panel: Panel, axis: Any) -> None:
    for label, (x, y) in panel.lines.items():
        axis.plot(x, y, ".-" if len(x) < 40 else "-", linewidth=1.2, label=label)
    for i, (label, (x, y)) in enumerate(panel.bars.items()):
        width = 0.8 / len(panel.bars)
        axis.bar(
            [value + (i - len(panel.bars) / 2 + 0.5) * width for value in x], y, width, label=label
        )
    for at, text in panel.marks.items():
        axis.axvline(at, color="grey", linestyle=":", linewidth=1)
        axis.annotate(text, (at, 1.0), xycoords=("data", "axes fraction"), fontsize=7, va="bottom")
    if panel.is_log:
        axis.set_yscale("log")
    axis.set_title(panel.title, pad=14 if panel.marks else 6)
    axis.set_xlabel(panel.x_label)
    axis.grid(alpha=0.3)
    if len(panel.lines) + len(panel.bars) > 1:
        axis.legend(fontsize=8)


def draw_panels(panels: Sequence[Panel], picture: Path, title: str) -> list[Path]:
    """Draw panels into a PNG file; returns the paths that were written."""
    if not is_installed("matplotlib"):
        print(f"matplotlib is not installed; {picture.name} is not drawn")
        return []
    from matplotlib.figure import Figure  # a figure of its own: no display, and nothing to close

    figure = Figure(figsize=(4.5 * len(panels), 3.4))
    axes = figure.subplots(1, len(panels), squeeze=False)
    for panel, axis in zip(panels, axes[0], strict=True):
        _draw(panel, axis)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(picture, dpi=100)
    return [picture]
