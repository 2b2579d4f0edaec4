"""Draws the panels of a comparison of runs: best score so far, entropy of the policy, norm of its gradient."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("svg")
import matplotlib.pyplot as pyplot

Curve = np.ndarray[Any, np.dtype[np.float64]]
DASHES = {"": "-", "sync": "--", "async": "-", "async behaviour": ":", "async uncapped": "-."}


NARROWEST = 7.0
"""Inches that the legend needs."""


def draw(
    path: Path, title: str, panels: Mapping[str, Mapping[tuple[str, str], Sequence[Curve]]], scale: str = "linear"
) -> None:
    """Write an SVG file with `panels` side by side. Each shows for each (objective, mode) the mean of its runs' curves,
    with a band of one standard error if there are several. The mode is empty if it is the same for all. `scale` is
    matplotlib's scale of the values."""
    plot: Any = pyplot
    plot.rcParams.update({"svg.hashsalt": "pace", "font.size": 9})
    colours = _colours(arm for arms in panels.values() for arm in arms)
    size = (max(4.2 * len(panels), NARROWEST), 3.6)
    figure, axes = plot.subplots(1, len(panels), figsize=size, layout="constrained", squeeze=False)
    for axis, (name, arms) in zip(axes[0], panels.items(), strict=True):
        for (objective, mode), curves in arms.items():
            mean, error = _mean(curves)
            at = np.arange(1, len(mean) + 1)
            axis.plot(
                at, mean, DASHES[mode], color=colours[objective], linewidth=1.3, label=f"{objective} {mode}".strip()
            )
            axis.fill_between(at, mean - error, mean + error, color=colours[objective], alpha=0.12, linewidth=0)
        axis.set_title(name)
        axis.set_yscale(scale)
        axis.set_xlabel("candidates" if axis is axes[0][0] else "updates")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
    figure.suptitle(title)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5 if len(panels) > 1 else 3, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plot.close(figure)


def _mean(curves: Sequence[Curve]) -> tuple[Curve, Curve]:
    """Mean and standard error at each place that at least half of the curves reach."""
    lengths = sorted(len(curve) for curve in curves)
    longest = lengths[(len(lengths) - 1) // 2]
    table = np.full((len(curves), longest), np.nan)
    for row, curve in zip(table, curves, strict=True):
        row[: len(curve)] = curve[:longest]
    count = np.sum(~np.isnan(table), axis=0)
    mean: Any = np.nanmean(table, axis=0)
    square = np.nansum((table - mean) ** 2, axis=0) / np.maximum(count - 1, 1)
    return mean, np.sqrt(square / count)


def _colours(arms: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {objective: f"C{n}" for n, objective in enumerate(dict.fromkeys(objective for objective, _ in arms))}
