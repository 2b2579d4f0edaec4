"""The front of a run with several objectives: a table, and with two of them a drawing. Pure."""

from pace_async.observe import formatting
from pace_async.population.reading.front import Front, OnFront
from pace_async.report.axes import Frame, path, plot, spread
from pace_async.report.islands import Link
from pace_async.report.markup import Content, Markup, tag
from pace_async.report.parts import card, scrolling, table

WIDTH, HEIGHT = 460.0, 260.0


def front(pareto_front: Front, link: Link) -> list[Markup]:
    """The front, the best score first. Empty without objectives or scores. `link` gives a candidate's number."""
    if not pareto_front.programs:
        return []
    aims = "; ".join(aim.in_words for aim in pareto_front.aims)
    caption = (
        f"{formatting.count(len(pareto_front.programs), 'program')} that no other one surpasses in all of: {aims}. "
    )
    caption += f"They dominate {pareto_front.hypervolume:.4f} of what lies between the bounds (hypervolume)."
    rows: list[dict[str, Content]] = [
        {
            "candidate": link(program.candidate),
            "score": formatting.score(program.score),
            **{name: formatting.score(value) for name, value in program.metrics.items()},
        }
        for program in pareto_front.programs
    ]
    drawn = [_drawing(pareto_front, link)] if len(pareto_front.aims) == 2 else []
    return [tag("p", caption, class_="sub"), *drawn, scrolling("Front", table(rows, "None."))]


def _drawing(pareto_front: Front, link: Link) -> Markup:
    """One objective over the other, joined along the front. A click on a mark opens its candidate."""
    across, up = (aim.metric for aim in pareto_front.aims)
    places = sorted(pareto_front.programs, key=lambda program: (program.metrics[across], program.metrics[up]))
    wide, high = (spread([program.metrics[name] for program in places]) for name in (across, up))
    frame = Frame(WIDTH, HEIGHT, wide, high)
    points = [frame.at(program.metrics[across], program.metrics[up]) for program in places]
    dots = [
        link(program.candidate, tag("circle", tag("title", _label_of(program)), cx=x, cy=y, r=4, class_="dot gained"))
        for (x, y), program in zip(points, places, strict=True)
    ]
    return card(plot(frame, across, up, path(points, "best"), *dots, role="group"))


def _label_of(program: OnFront) -> str:
    return f"candidate {program.candidate}: {formatting.score(program.score)}"
