"""Cards, hours and USD of the paper's comparison: a row for each run, from its dry run, and the sum over all seeds."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pace_async.cli.dry_run import dry_run
from pace_async.config import Config
from pace_async.errors import UsageError
from research.benchmarks.bench_runs import refuse

HEADS = ("task", "advisor", "cards", "hours", "USD")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run. `hours` are those without any time for evaluations, and with the longest of all. `usd` is None where
    a model has no listed price."""

    cards: str
    hours: tuple[float, float]
    usd: float | None

    @property
    def cells(self) -> tuple[str, str, str]:
        low, high = self.hours
        return self.cards, f"{low:g} to {high:g}", "unknown" if self.usd is None else f"{self.usd:g}"


def cost_of(plan: Mapping[str, str]) -> Cost:
    """The figures in the lines of a dry run that asks models."""
    low, high = map(float, re.findall(r"[\d.]+", plan["hours"].partition(",")[0]))
    usd = re.search(r" ([\d.]+) USD(?:; the |$)", plan["bill"])
    return Cost(_cards(plan["cards"]), (low, high), None if usd is None else float(usd[1]))


def _cards(said: str) -> str:
    """What the run needs on a machine without a card, else what it takes of the cards there."""
    needs = re.search(r"the run needs (\d+) cards? of ([\d.]+) GiB", said)
    if needs is None:
        return "none" if said.startswith("no ") else said
    more = re.search(r"(\d+) more cards? for evaluations", said)
    return f"{needs[1]} of {needs[2]} GiB" + (f", {more[1]} more" if more else "")


def show(rows: Sequence[tuple[str, str, Callable[[], Config]]], seeds: int) -> None:
    """Print the table, each row as soon as it is known, and the sum. A row is a task, an advisor and the settings."""
    sys.stdout.write(f"| {' | '.join(HEADS)} |\n{'|---' * len(HEADS)}|\n")
    costs: list[Cost] = []
    for task, advisor, config in rows:
        try:
            costs.append(cost_of(dry_run(config(), None)["plan"]))
        except UsageError as error:
            refuse(str(error))
        sys.stdout.write(f"| {' | '.join((task, advisor, *costs[-1].cells))} |\n")
        sys.stdout.flush()
    low, high = (seeds * sum(cost.hours[end] for cost in costs) for end in (0, 1))
    usd = [cost.usd for cost in costs if cost.usd is not None]
    priced = f"{seeds * sum(usd):.0f} USD" + ("" if len(usd) == len(costs) else " and what is unknown")
    sys.stdout.write(
        f"\nAll {seeds * len(costs)} runs, {seeds} seed{'s' if seeds > 1 else ''} each: {low:.0f} to {high:.0f} hours "
        f"one after the other, {priced}\n"
    )
