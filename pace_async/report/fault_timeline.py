"""Faults over the time of a run, a lane for each stage. Pure.

The drawing has at most BINS marks in a lane, however many faults there are: a mark stands for all of one span of time,
and the more faults, the higher the mark.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping

from pace_async.population.reading.timeline import Timeline
from pace_async.report.axes import labelled, ticks
from pace_async.report.durations import unit_of
from pace_async.report.markup import Markup, join, tag

WIDTH, LANE, LEFT, RIGHT, FOOT = 960.0, 44.0, 110.0, 12.0, 36.0
BINS = 160
LEAST = 6.0
"""The height of a mark of one fault."""


def fault_timeline(timeline: Timeline) -> Markup:
    """The drawing. Without a fault it is empty."""
    lanes: defaultdict[str, defaultdict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    length = max(timeline.ended - timeline.began, 1e-9)
    for fault in timeline.faults:
        share = (fault.at - timeline.began) / length
        lanes[fault.stage][min(BINS - 1, max(0, int(share * BINS)))][fault.kind] += 1
    if not lanes:
        return Markup()
    most = max(sum(kinds.values()) for lane in lanes.values() for kinds in lane.values())
    height = LANE * len(lanes) + FOOT
    unit, seconds = unit_of(length)
    drawn = [
        _lane(name, lanes[name], LANE * number, most, length / seconds, unit)
        for number, name in enumerate(sorted(lanes))
    ]
    return tag(
        "svg",
        tag("title", f"Faults by stage over {length / seconds:.3g} {unit}"),
        join(drawn),
        _scale(length / seconds, height, f"{unit} since the run began"),
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        xmlns="http://www.w3.org/2000/svg",
    )


def _lane(name: str, bins: Mapping[int, Counter[str]], top: float, most: int, length: float, unit: str) -> Markup:
    foot, step = top + LANE, (WIDTH - LEFT - RIGHT) / BINS
    marks: list[Markup] = []
    for place, kinds in sorted(bins.items()):
        times = sum(kinds.values())
        high = LEAST + (LANE - 10 - LEAST) * (math.log(times) / math.log(most) if most > 1 else 0.0)
        summary = ", ".join(f"{kind} {amount:,}" if amount > 1 else kind for kind, amount in kinds.most_common(6))
        when = f"{length * place / BINS:.3g} to {length * (place + 1) / BINS:.3g} {unit}"
        title = tag("title", f"{name}, {when}: {summary}"[:300])
        place_x, wide = LEFT + place * step, max(2.0, step - 0.6)
        marks.append(tag("rect", title, x=place_x, y=foot - high, width=wide, height=high, class_="fault"))
    label = tag("text", name[:16], x=LEFT - 8, y=foot - 6, class_="end")
    return join([tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=foot, y2=foot, class_="grid"), label, *marks])


def _scale(length: float, height: float, label: str) -> Markup:
    drawn = [
        tag(
            "text",
            tick_label,
            x=LEFT + value / length * (WIDTH - LEFT - RIGHT),
            y=height - FOOT + 15,
            class_="tick end" if value / length > 0.97 else "tick middle",
        )
        for value, tick_label in labelled(ticks(0.0, length, about=8))
    ]
    return join([*drawn, tag("text", label, x=WIDTH - RIGHT, y=height - 4, class_="label end")])
