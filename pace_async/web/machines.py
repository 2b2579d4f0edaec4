"""The machines that evaluate a run's programs: evaluations at once and waits for a slot over time. Pure.

Each machine that the attempts name has a drawing and a line of the table.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pace_async.observe import formatting
from pace_async.population.reading.machines import MachineAttempt
from pace_async.report.axes import Frame, path, plot, spread
from pace_async.report.durations import unit_of
from pace_async.report.facts import Facts
from pace_async.report.markup import Content, Markup, tag
from pace_async.report.parts import card, scrolling, table
from pace_async.web.shell import document

WIDTH, HEIGHT = 460.0, 190.0
BINS = 120
"""Parts of the run's time. Of each the drawing has the mean."""


def machines_page(name: str, facts: Facts, attempts: Sequence[MachineAttempt]) -> str:
    """What each machine did, and what it waited for."""
    by_machine: defaultdict[str, list[MachineAttempt]] = defaultdict(list)
    for one in attempts:
        by_machine[one.machine].append(one)
    header = facts.header
    setting = f"Sandbox {header.sandbox}, {header.threads} threads, advisor on {header.engine}"
    return document(
        f"{header.name}: machines",
        tag("h1", "Machines"),
        tag("p", f"{setting}, {_slots(header.config)}.", class_="sub"),
        *[_machine(one, machine_attempts, facts.account.began) for one, machine_attempts in sorted(by_machine.items())],
        scrolling(
            "Machines",
            table([_row(one, machine_attempts) for one, machine_attempts in sorted(by_machine.items())], _NONE),
            class_="card wide after",
        ),
        run=name,
        page="machines",
    )


_NONE = "No evaluation has been recorded."


def _slots(config: Mapping[str, object]) -> str:
    settings = config.get("evaluation")
    slots = settings.get("slots") if isinstance(settings, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return f"{slots} slots for evaluations" if slots else "as many slots for evaluations as the machine has room for"


def _machine(name: str, attempts: Sequence[MachineAttempt], began: float) -> Markup:
    last = max(attempt.ended for attempt in attempts)
    unit, size = unit_of(last - began)
    busy, waits = _over_time(attempts, began, last)
    cards = [
        card(tag("h3", title), _drawing(title, [(x / size, y) for x, y in points], unit))
        for title, points in ((f"{name}: evaluations at once", busy), (f"{name}: wait for a slot, seconds", waits))
    ]
    return tag("div", *cards, class_="pair")


def _over_time(
    attempts: Sequence[MachineAttempt], began: float, last: float
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """(seconds since the beginning, evaluations at once) and (the same, mean wait), for each part of the time."""
    width = max(last - began, 1e-6) / BINS
    busy, waited, begun = [0.0] * BINS, [0.0] * BINS, [0] * BINS
    for attempt in attempts:
        first, final = (min(BINS - 1, max(0, int((at - began) / width))) for at in (attempt.began, attempt.ended))
        waited[first] += attempt.queue_seconds
        begun[first] += 1
        for part in range(first, final + 1):
            low, high = began + part * width, began + (part + 1) * width
            busy[part] += max(0.0, min(attempt.ended, high) - max(attempt.began, low)) / width
    places = [(part + 0.5) * width for part in range(BINS)]
    waits = [(x, total / times) for x, total, times in zip(places, waited, begun, strict=True) if times]
    return list(zip(places, busy, strict=True)), waits


def _drawing(title: str, points: Sequence[tuple[float, float]], unit: str) -> Markup:
    high = max((x for x, _ in points), default=1.0)
    frame = Frame(WIDTH, HEIGHT, (0.0, max(high, 1e-6)), spread([0.0, *(y for _, y in points)]))
    line = path([frame.at(x, y) for x, y in points], "measure") if len(points) > 1 else None
    return plot(frame, f"{unit} since the run began", title, line, whole_x=False)


def _row(name: str, attempts: Sequence[MachineAttempt]) -> dict[str, Content]:
    seconds = sum(attempt.ended - attempt.began for attempt in attempts)
    waits = sorted(attempt.queue_seconds for attempt in attempts)
    lost = sum(attempt.lost for attempt in attempts)
    return {
        "machine": name,
        "evaluations": f"{len(attempts):,}",
        "lost": f"{lost:,}",
        "busy": formatting.duration(seconds),
        "median wait": f"{waits[len(waits) // 2]:.2f} s",
        "longest wait": f"{waits[-1]:.2f} s",
    }
