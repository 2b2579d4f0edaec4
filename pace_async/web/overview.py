"""The pages of a run that are made of the report's sections, and the list of all runs. Pure, except for reading."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from pace_async.errors import UsageError
from pace_async.events import IslandActed
from pace_async.observe import formatting
from pace_async.observe.spending import cell_usd
from pace_async.population.reading.candidate_metrics import CandidateMetrics, measured_of
from pace_async.population.reading.machines import MachineAttempt, attempts_of
from pace_async.population.reading.money import Money, money_of
from pace_async.population.reading.read_facts import actions_of
from pace_async.population.reading.reader import Reader
from pace_async.population.reading.timeline import Timeline, timeline_of
from pace_async.report import sections
from pace_async.report.facts import Facts, gather_parts
from pace_async.report.fault_timeline import fault_timeline
from pace_async.report.front import front
from pace_async.report.islands import islands
from pace_async.report.markup import Markup, tag
from pace_async.report.metrics import metrics
from pace_async.report.notes import notes
from pace_async.report.parts import scrolling, table
from pace_async.report.progress_axis import CHOICES, By
from pace_async.task import best_known
from pace_async.web.runs import OpenRun
from pace_async.web.shell import RUNS, address, axes, document, linking

_MARKS = "A mark stands for all faults of one span of time: the more faults, the higher. Hover for their kinds."


def facts_of(reader: Reader) -> tuple[Facts]:
    """What the report of this moment would show, without learning."""
    return (gather_parts(reader, best_known(reader.header()), learning=False),)


def learning_of(reader: Reader) -> tuple[Facts]:
    """The facts with those of the learner."""
    return (gather_parts(reader, best_known(reader.header())),)


def with_actions(reader: Reader) -> tuple[Facts, Sequence[IslandActed]]:
    """The facts, and the actions of the islands."""
    return *facts_of(reader), tuple(reader.ask(actions_of).values())


def with_attempts(reader: Reader) -> tuple[Facts, Sequence[MachineAttempt]]:
    """The facts, and the attempts to evaluate programs."""
    return *facts_of(reader), reader.ask(attempts_of)


def with_measured(reader: Reader) -> tuple[str, int, tuple[CandidateMetrics, ...]]:
    """The run's name, its complete candidates, and the metrics of those with a score."""
    standing = reader.standing()
    return standing.header.name, standing.candidates, reader.ask(measured_of)


def spending_of(reader: Reader) -> tuple[str, Money, Timeline]:
    """The run's name, and what the page of spend and faults shows."""
    return reader.header().name, reader.ask(money_of), reader.ask(timeline_of)


def run_page(name: str, facts: Facts) -> str:
    """State and figures, the curve, the best program and how it came to be, the notes."""
    best = Markup()
    if facts.best is not None:
        number = facts.best["candidate"]
        best = tag("p", tag("a", f"Candidate {number}: the best program", href=address(name, candidate=number)))
    return document(
        facts.header.name,
        *sections.top(facts),
        tag("h2", "Best score so far"),
        sections.curve(facts),
        *([tag("h2", "Front"), *front_section] if (front_section := front(facts.front, linking(name))) else []),
        tag("h2", "How the best program came to be"),
        best,
        sections.lineage(facts, linking(name)),
        *([tag("h2", "Notes"), *written] if (written := notes(facts.notes)) else []),
        tag("h2", "The best program against the seed program"),
        sections.against_seed(facts),
        sections.foot(facts),
        run=name,
        page="",
    )


def learner_page(name: str, facts: Facts, by: By) -> str:
    """What the learner did, over candidates, groups or hours."""
    title = f"{facts.header.name}: learner"
    over = axes(CHOICES, by) if facts.account.groups else None
    return document(title, tag("h1", "Learner"), over, sections.learner(facts, by), run=name, page="learner")


def metrics_page(name: str, title: str, candidates: int, measured: Sequence[CandidateMetrics]) -> str:
    """The score and each metric of the task over the candidates."""
    body = (tag("h1", "Metrics"), metrics(measured, candidates))
    return document(f"{title}: metrics", *body, run=name, page="metrics")


def islands_page(name: str, facts: Facts, actions: Sequence[IslandActed]) -> str:
    """The islands, and each of their actions with its candidate."""
    body = (tag("h1", "Islands"), islands(facts, actions, linking(name)))
    return document(f"{facts.header.name}: islands", *body, run=name, page="islands")


def spend_page(name: str, title: str, money: Money, timeline: Timeline) -> str:
    """How candidates ended, what failed and when, what was paid."""

    def ended(outcome: str) -> str:
        where = urlencode({"where": f"outcome = '{outcome}' and candidate > 0"})
        return f"{address(name, 'candidates')}?{where}"

    when, note = fault_timeline(timeline), tag("p", _MARKS, class_="sub")
    return document(
        f"{title}: spend and faults",
        tag("h1", "Spend and faults"),
        tag("div", sections.outcomes(money, ended), sections.faults(money), class_="pair"),
        tag("div", tag("h3", "Faults over time"), when, note, class_="card after") if when else None,
        sections.spend(money),
        sections.money_by_improvement(money, linking(name)),
        run=name,
        page="spend",
    )


def runs_page(runs: Mapping[str, OpenRun]) -> str:
    """Every run that this server shows, with its state and best score."""
    rows = [_row(name, run) for name, run in runs.items()]
    return document("Runs", tag("h1", "Runs"), scrolling("Runs", table(rows, "There is no run yet.")), page=RUNS)


def _row(name: str, run: OpenRun) -> dict[str, Markup | str]:
    try:
        status = run.answer("status", lambda reader: reader.status()).value
        header = run.answer("header", lambda reader: reader.header()).value
    except UsageError as error:
        return {"run": name, "task": "", "state": str(error), "score": "", "candidates": "", "USD": ""}
    best = status["best_score"]
    return {
        "run": tag("a", name, href=address(name)),
        "task": header.task,
        "state": formatting.STATES.get(status["state"], status["state"]),
        "score": "–" if best is None else formatting.score(best),
        "candidates": f"{status['candidates']:,}",
        "USD": cell_usd(status["spend_known_usd"], unpriced=status["spend_usd"] is None, digits=2),
    }
