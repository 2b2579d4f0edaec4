"""A comparison as lines of text: tables, sentences, and the mean curves on axes. Pure."""

from pace_async.observe.chart import curves
from pace_async.observe.columns import table_lines
from pace_async.observe.spending import in_usd
from pace_async.report.compared import Comparison, in_words, share_in_words
from pace_async.report.comparison import Estimate, band, difference, sampled
from pace_async.report.diagnostics import TOO_FEW

WIDTH, HEIGHT = 72, 14


def lines(comparison: Comparison, room: int | None = None) -> list[str]:
    """The whole text. A row of a table has at most `room` characters."""
    text = table_lines(_runs(comparison), room)
    for rows in (arms(comparison), diagnostics(comparison)):
        text += ["", *table_lines(rows, room)] if rows else []
    verdicts = comparison.verdicts
    if (fronts := comparison.fronts) is not None:
        text += ["", fronts_in_words(comparison), *table_lines(arms(fronts), room), *fronts.told_apart]
    return [*text, *(["", *verdicts] if verdicts else []), "", *_drawing(comparison)]


def fronts_in_words(comparison: Comparison) -> str:
    """What a hypervolume is, with its reference point."""
    bounds = ", ".join(f"{name} {bound:g}" for name, bound in comparison.reference.items())
    return f"Hypervolume: the share that a front dominates of what lies between the bounds (worse ones: {bounds})."


def _runs(comparison: Comparison) -> list[dict[str, object]]:
    first, place, by = comparison.arms[0].name, comparison.place, comparison.by
    several = len(comparison.every) > 1
    return [
        {
            "arm": row["arm"],
            "run": row["run"],
            "seed": row["seed"],
            "state": row["state"],
            "candidates": row["candidates"],
            "best": row["best_score"],
            f"after {in_words(place, by)}": row["best_compared"],
            **({"at fresh seeds": row["fresh_score"]} if comparison.has_fresh else {}),
            **({"hypervolume": row["hypervolume"]} if comparison.reference else {}),
            **({f"as good as {first} after": share_in_words(row["reaches_first"], place, by)} if several else {}),
            "spend": in_usd(row["spend_known_usd"], unpriced=row["spend_usd"] is None, digits=2),
        }
        for row in comparison.runs
    ]


def arms(comparison: Comparison) -> list[dict[str, object]]:
    """A row for each arm, and below it one at fresh seeds where the task has them. Nothing for a single run."""
    if len(comparison.every) == 1:
        return []
    place, first = comparison.place, comparison.arms[0]
    rows: list[dict[str, object]] = []
    for arm in comparison.arms:
        for fresh in (False, True) if comparison.has_fresh else (False,):
            mean = arm.mean(place, fresh=fresh)
            against = None if arm is first else difference(arm, first, place, fresh=fresh)
            rows.append(
                {
                    "arm": arm.name,
                    **({"scores": "at fresh seeds" if fresh else "of the search"} if comparison.has_fresh else {}),
                    "seeds": len(arm.scores(place, fresh=True)) if fresh else len(arm.apart),
                    f"mean after {in_words(place, comparison.by)}": mean and mean.value,
                    "95 %": _interval(mean),
                    f"minus {first.name}": against and against.value,
                    "95 % of it": _interval(against),
                    "settings": " ".join(f"{name}={value}" for name, value in arm.settings.items()) or None,
                }
            )
    return rows


def diagnostics(comparison: Comparison) -> list[dict[str, object]]:
    """A row for each run that had groups, none if none had."""
    return [
        {
            "arm": arm.name,
            "run": run.run,
            "groups trained": run.diagnostics.trained,
            "spikes of entropy": _spikes(run.diagnostics.entropy_spikes, run.diagnostics.trained),
            "of gradient norm": _spikes(run.diagnostics.grad_norm_spikes, run.diagnostics.trained),
            "spread of rewards, first and last quarter": spread_in_words(run.diagnostics.reward_spread) or TOO_FEW,
        }
        for arm, run in comparison.every
        if run.diagnostics.trained or run.diagnostics.groups
    ]


def _spikes(number: int | None, trained: int) -> int | str | None:
    """None where nothing was trained."""
    return TOO_FEW if number is None and trained else number


def spread_in_words(spread: tuple[float, float] | None) -> str | None:
    """The rewards' spread in the first and the last quarter."""
    return None if spread is None else f"{spread[0]:.3g} → {spread[1]:.3g}"


def _interval(estimate: Estimate | None) -> str | None:
    """The ends of an interval."""
    return None if estimate is None or estimate.low is None else f"{estimate.low:.6g} to {estimate.high:.6g}"


def _drawing(comparison: Comparison) -> list[str]:
    """The mean curves of the arms, on axes."""
    end = comparison.place
    drawn = {arm.name: sampled(band(arm, end), WIDTH, end) for arm in comparison.arms}
    values = [value for curve in drawn.values() for value in curve if value is not None]
    if not values:
        return ["no score yet"]
    labels = {0: f"{max(values):.6g}", HEIGHT - 1: f"{min(values):.6g}"}
    edge = max(len(label) for label in labels.values())
    below = f"{'':>{edge}}  0{in_words(end, comparison.by):>{WIDTH - 1}}"
    rows = enumerate(curves(drawn, HEIGHT))
    return [*(f"{labels.get(row, ''):>{edge}} │{line.rstrip()}" for row, line in rows), below]
