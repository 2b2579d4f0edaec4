"""The front of a run with several objectives: a table, and with two of them a drawing. Pure."""

from pace_async.observe import formatting
from pace_async.population.reading.front import Front, OnFront
from pace_async.report.axes import Frame, path, plot, spread
from pace_async.report.islands import Link
from pace_async.report.markup import Content, Markup, tag
from pace_async.report.parts import card, scrolling, table

WIDTH, HEIGHT = 460.0, 260.0


def front(found: Front, link: Link) -> list[Markup]:
    """The front, the best score first. Empty without objectives or scores. `link` gives a candidate's number."""
    if not found.programs:
        return []
    aims = "; ".join(aim.in_words for aim in found.aims)
    said = f"{formatting.count(len(found.programs), 'program')} that no other one surpasses in all of: {aims}. "
    said += f"They dominate {found.hypervolume:.4f} of what lies between the bounds (hypervolume)."
    rows: list[dict[str, Content]] = [
        {
            "candidate": link(one.candidate),
            "score": formatting.score(one.score),
            **{name: formatting.score(value) for name, value in one.metrics.items()},
        }
        for one in found.programs
    ]
    drawn = [_drawing(found, link)] if len(found.aims) == 2 else []
    return [tag("p", said, class_="sub"), *drawn, scrolling("Front", table(rows, "None."))]


def _drawing(found: Front, link: Link) -> Markup:
    """One objective over the other, joined along the front. A click on a mark opens its candidate."""
    across, up = (aim.metric for aim in found.aims)
    places = sorted(found.programs, key=lambda one: (one.metrics[across], one.metrics[up]))
    wide, high = (spread([one.metrics[name] for one in places]) for name in (across, up))
    frame = Frame(WIDTH, HEIGHT, wide, high)
    points = [frame.at(one.metrics[across], one.metrics[up]) for one in places]
    dots = [
        link(one.candidate, tag("circle", tag("title", _named(one)), cx=x, cy=y, r=4, class_="dot gained"))
        for (x, y), one in zip(points, places, strict=True)
    ]
    return card(plot(frame, across, up, path(points, "best"), *dots, role="group"))


def _named(one: OnFront) -> str:
    return f"candidate {one.candidate}: {formatting.score(one.score)}"
