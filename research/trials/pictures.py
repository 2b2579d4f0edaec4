"""Draws the pictures of the trials: panels in which each arm is the mean of its runs, with a band of one standard
error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("svg")
import matplotlib.pyplot as pyplot


@dataclass(frozen=True, slots=True)
class Steps:
    """The curves of an arm's runs, at `start`, `start + step` and so on."""

    start: float
    step: float
    curves: Sequence[Sequence[float]]

    def mean(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places, means and standard errors, as far as every curve goes. The error of a single curve is 0."""
        length = min(len(curve) for curve in self.curves)
        table = np.array([curve[:length] for curve in self.curves])
        runs = len(table)
        error = table.std(axis=0, ddof=1) / runs**0.5 if runs > 1 else np.zeros(length)
        return self.start + self.step * np.arange(length), table.mean(axis=0), error


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its title, the name of its horizontal axis, and the runs of each arm. Arms without curves are left
    out."""

    title: str
    axis: str
    arms: Mapping[str, Steps]


def draw_panels(path: Path, panels: Sequence[Panel]) -> None:
    """Write an SVG file with the panels side by side. An arm has the same colour in each."""
    plot: Any = pyplot
    plot.rcParams.update({"svg.hashsalt": "pace", "font.size": 9})
    colours = {arm: f"C{n}" for n, arm in enumerate(dict.fromkeys(arm for panel in panels for arm in panel.arms))}
    figure, axes = plot.subplots(
        1, len(panels), figsize=(max(4.0 * len(panels), 6.0), 3.6), layout="constrained", squeeze=False
    )
    for drawn, panel in zip(axes[0], panels, strict=True):
        for arm, steps in panel.arms.items():
            if not steps.curves:
                continue
            at, mean, error = steps.mean()
            label = f"{arm} ({len(steps.curves)} runs)" if len(steps.curves) > 1 else f"{arm} (1 run)"
            drawn.plot(at, mean, color=colours[arm], linewidth=1.4, label=label)
            drawn.fill_between(at, mean - error, mean + error, color=colours[arm], alpha=0.15, linewidth=0)
        drawn.set_title(panel.title)
        drawn.set_xlabel(panel.axis)
        drawn.grid(alpha=0.3)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plot.close(figure)
