"""The sections of a report, each made of the same facts. Pure."""

import time
from collections import Counter
from collections.abc import Callable

from pace_async.observe import formatting, spending
from pace_async.observe.few_scores import few_scores
from pace_async.observe.standing import UNCHANGED, says_nothing, to_best_known, tried_again
from pace_async.population.reading.money import Money
from pace_async.registry.advisors import advisor_of
from pace_async.registry.objectives import trains
from pace_async.report import learning, progress
from pace_async.report.comparison_text import spread_in_words
from pace_async.report.diagnostics import FEWEST, diagnostics_of
from pace_async.report.difference import count_changes, difference
from pace_async.report.facts import Facts, Row
from pace_async.report.islands import Link
from pace_async.report.markup import Content, Markup, join, tag
from pace_async.report.parts import card, scrolling, table
from pace_async.report.progress_axis import By, axis_of
from pace_async.report.reproduce import command, versions
from pace_async.report.syntax import line_of
from pace_async.report.tree import tree
from pace_async.task import reference_of

IMPROVEMENTS = 100
"""The newest improvements that the table of money shows."""


def failure(facts: Facts) -> Markup:
    """The first line of a run that failed, empty for any other."""
    state, reason = facts.status["state"], facts.status["reason"] or ""
    if state in ("gave_up", "crashed"):
        ending = formatting.STATES.get(state, state)
        explanation = formatting.reason(state, reason)
        return tag(
            "p", f"This run failed: {ending}{f': {explanation}' if explanation else ''}.", class_="alert", role="alert"
        )
    if state != "running" and facts.account.candidates and facts.best is None:
        return tag("p", "This run failed: no program has a score.", class_="alert", role="alert")
    return Markup()


def top(facts: Facts) -> list[Markup]:
    """Name, state, settings and the figures of the run."""
    header, status, account = facts.header, facts.status, facts.account
    reason = formatting.reason(status["state"], status["reason"] or "")
    state = formatting.STATES.get(status["state"], status["state"]) + (f": {reason}" if reason else "")
    seed = next((row.score for row in facts.account.candidates if row.candidate == 0), None)
    best, worst = status["best_score"], status["max_trained_staleness"] if status["trained"] else "–"
    trained = [
        (f"{status['groups_trained']} + {status['groups_skipped']}", "groups trained + skipped"),
        (f"{worst} of {header.max_staleness}", "worst staleness, bound"),
    ]
    tiles = [
        ("–" if best is None else formatting.score(best), f"best score ({header.fitness.name}d)"),
        *_standing(facts),
        ("–" if seed is None else formatting.score(seed), "seed program"),
        (f"{status['candidates']:,}", "candidates"),
        *(trained if trains(header.objective) else []),
        (_spent(status), f"spent{spending.parts_of_spend(status['spend_by_role'])}"),
        (formatting.duration(account.driven), "of search, pauses between processes left out"),
    ]
    tags = [tag("div", tag("b", value), tag("span", name), class_="tile") for value, name in tiles]
    learns = "" if advisor_of(header.advisor).served else " (it learns nothing)"
    advisor = f"advisor {header.advisor} on {header.engine}{learns}"
    models = f"{advisor}, implementer {header.implementer}, sandbox {header.sandbox}"
    trust = f" · {formatting.SHARED_TRUST}: {formatting.SHARED_MEANS}" if header.shares_trust else ""
    setting = (
        f"objective {header.objective}, {header.threads} threads, groups of {header.group_size}, seed {header.seed}"
    )
    few = few_scores(status["candidates"], status["scored"], status["causes"])
    return [
        failure(facts),
        tag("h1", header.name),
        tag("p", f"{header.task} · {state} · {models} · {setting}{trust}", class_="sub"),
        tag("div", *tags, class_="tiles"),
        *([tag("p", few.sentence)] if few is not None else []),
    ]


def _spent(status: Row) -> str:
    unpriced = [role for role, usd in status["spend_by_role"].items() if usd is None]
    return spending.spent_usd(status["spend_known_usd"], unpriced)


def _standing(facts: Facts) -> list[tuple[str, str]]:
    """The best score's value on fresh instances, and its relation to the best known."""
    if facts.best is None:
        return []
    tiles: list[tuple[str, str]] = []
    fresh = facts.best["fresh_score"]
    if says_nothing(facts.best["score"], fresh, facts.header):
        tiles.append(("the same", f"the best {tried_again(shares_trust=False)}: {UNCHANGED}"))
    elif fresh is not None:
        tiles.append(
            (
                formatting.score(fresh),
                f"the best {tried_again(shares_trust=facts.header.shares_trust)}"
                + (", by which it is chosen" if facts.header.by_confirmed else ""),
            )
        )
    if facts.best["equal"]:
        tiles.append((str(len(facts.best["equal"])), "others that the noise of that evaluation does not tell from it"))
    if facts.best_known is not None:
        relation = to_best_known(facts.best["score"], facts.best_known, facts.header.fitness, named=False)
        tiles.append((formatting.score(facts.best_known), f"best known{f': {relation}' if relation else ''}"))
    return tiles


def curve(facts: Facts) -> Markup:
    """The best score so far, with every candidate."""
    picture, beyond = progress.curve(facts)
    notes = [
        "Dots: scores. Red ticks: candidates without one. Rings: the best program and its ancestors.",
        _recorded(facts),
        f"{formatting.count(beyond, 'score')} far worse than the rest on the edge." if beyond else "",
        "Hover over a mark for what was tried.",
    ]
    return card(picture, tag("p", " ".join(note for note in notes if note), class_="sub"))


def _recorded(facts: Facts) -> str:
    """What the band is, with the command and the day of its runs."""
    if facts.beside is None:
        return ""
    runs = facts.beside.recorded
    source = f"{len(runs.seeds)} recorded runs {runs.what} ({runs.command}; seeds {runs.seeds_in_words}; {runs.date})"
    if facts.beside.differs:
        return f"{source} are not shown, because {facts.beside.differs}."
    return f"Band: {source}, from the lowest to the highest, with their median."


def lineage(facts: Facts, link: Link | None = None) -> Markup:
    """The best program and its ancestors, as a table. `link` gives a candidate's number, where the page has more of
    it."""
    rows: list[dict[str, Content]] = [
        {
            "candidate": link(row.candidate) if link else "seed" if row.candidate == 0 else f"#{row.candidate}",
            "score": "–" if row.score is None else formatting.score(row.score),
            "island": row.island,
            "idea": row.idea,
            "experiment": row.experiment,
        }
        for row in facts.lineage
    ]
    return scrolling("The best program and its ancestors", table(rows, "Nothing has a score yet."))


def tree_of_lineage(facts: Facts) -> list[Markup]:
    """The drawing of the best programs with their ancestors, and its caption."""
    if not facts.lineage:
        return [card(tag("p", "Nothing has a score yet.", class_="sub"))]
    picture, caption = tree(facts)
    return [tag("p", caption, class_="sub"), scrolling("Lineage", picture)]


def learner(facts: Facts, by: By = "candidates") -> Markup:
    """The learner's panels, over an axis of candidates, groups or hours."""
    if not facts.account.groups:
        learns = trains(facts.header.objective)
        reason = "" if learns else f": {formatting.why_untrained(facts.header.advisor)}"
        return card(tag("p", f"No group has been trained{reason}.", class_="sub"))
    drawn = [("Staleness of what was trained, in updates; the line is the bound", learning.staleness(facts))]
    panels = learning.panels(facts, axis_of(facts.account, by))
    cards = [card(tag("h3", title), picture) for title, picture in [*panels, *drawn]]
    skipped = facts.status["groups_skipped"]
    note = f"Red ticks: {formatting.count(skipped, 'group')} skipped, in which nothing was learned." if skipped else ""
    if facts.status["rollbacks"]:
        note += f" The advisor {formatting.went_back(len(facts.status['rollbacks']))}: its answers could not be parsed."
    caption = f"{_diagnostics(facts)}{note}"
    return join([tag("p", caption, class_="sub") if caption else Markup(), tag("div", *cards, class_="pair")])


def _diagnostics(facts: Facts) -> str:
    """How often entropy and gradient norm spiked, and how far the rewards of a group spread, if there are enough
    groups."""
    trained = [row for row in facts.account.groups if row.state == "trained"]
    diagnostics = diagnostics_of(
        [row.entropy for row in trained if row.entropy is not None],
        [row.grad_norm for row in trained if row.grad_norm is not None],
        [row.spread for row in facts.account.rewards],
    )
    sentences = ""
    if diagnostics.entropy_spikes is not None and diagnostics.grad_norm_spikes is not None:
        sentences = (
            "Spikes beyond twice the running median, in the last half of the updates: "
            f"{diagnostics.entropy_spikes} of the entropy, {diagnostics.grad_norm_spikes} of the gradient norm. "
        )
    elif diagnostics.trained:
        sentences = f"Spikes are counted from {FEWEST} trained groups on. "
    if (spread := spread_in_words(diagnostics.reward_spread)) is not None:
        sentences += f"Spread of the rewards in a group, first and last quarter of the groups: {spread}. "
    return sentences


def outcomes(money: Money, link: Callable[[str], str] | None = None) -> Markup:
    """How many candidates ended in each way. `link` gives the address of those with an outcome, where there is one."""
    rows: list[dict[str, Content]] = [
        {
            "outcome": tag("a", formatting.OUTCOMES.get(name, name), href=link(name))
            if link
            else formatting.OUTCOMES.get(name, name),
            "candidates": number,
        }
        for name, number in Counter(money.outcomes).most_common()
    ]
    title = "How candidates ended"
    return scrolling(title, tag("h3", title), table(rows, "No candidate is complete yet."))


def faults(money: Money) -> Markup:
    """Faults by place and kind."""
    rows = [{"where": row.stage, "kind": row.kind, "times": row.times, "the last": row.detail} for row in money.faults]
    title = "Faults of services and the machine"
    return scrolling(title, tag("h3", title), table(rows, "None."))


def spend(money: Money) -> Markup:
    """What each model cost."""
    rows = [
        {
            "role": row.role,
            "model": row.model,
            "calls": f"{row.calls:,}",
            "tokens in": f"{row.prompt_tokens or 0:,}",
            "tokens out": f"{row.completion_tokens or 0:,}",
            "seconds": f"{row.seconds or 0:,.1f}",
            "USD": spending.cell_usd(row.known_usd, unpriced=row.usd is None),
        }
        for row in money.spend
    ]
    spent = scrolling("Spend", tag("h3", "Spend"), table(rows, "Nothing was called yet."))
    return tag("div", spent, class_="after")


def money_by_improvement(money: Money, link: Link) -> Markup:
    """What each improvement of the best score had cost."""
    rows: list[dict[str, Content]] = []
    before: float | None = 0.0
    for row, usd in money.improvements:
        rows.append(
            {
                "candidate": "seed" if row.candidate == 0 else link(row.candidate),
                "score": formatting.score(row.score),
                "after candidates": f"{row.place:,}",
                "USD": "unknown" if usd is None else f"{usd:,.4f}",
                "USD since the last": "unknown" if usd is None or before is None else f"{usd - before:,.4f}",
                "experiment": row.experiment,
            }
        )
        before = usd
    title = "Money by improvement"
    panel = scrolling(title, tag("h3", title), table(rows[-IMPROVEMENTS:], "Nothing has a score yet."))
    return tag("div", panel, class_="after")


def nodes(facts: Facts) -> list[Markup]:
    """The machines of a cluster, if there was one."""
    rows = [
        {
            "node": node["node"],
            "class of machine": node["machine"] or "–",
            "attempts": f"{node['attempts']:,}",
            "lost": f"{node['lost']:,}",
            "seconds": f"{node['seconds']:,.1f}",
            "waited": f"{node['queue_seconds']:,.1f}",
        }
        for node in facts.status["nodes"]
    ]
    title = "Machines that evaluated"
    return [scrolling(title, tag("h3", title), table(rows, ""), class_="card wide after")] if rows else []


def against_seed(facts: Facts) -> Markup:
    """The difference between the seed program and the best."""
    if facts.best is None or facts.seed_program is None:
        return card(tag("p", "Nothing has a score yet.", class_="sub"))
    lines = difference(
        facts.seed_program, facts.best["program"], "seed program", f"candidate {facts.best['candidate']}"
    )
    if not lines:
        return card(tag("p", "The best program is the seed program.", class_="sub"))
    added, removed = count_changes(lines)
    spans = [tag("span", line_of(line), class_=line.kind) for line in lines]
    caption = f"{formatting.count(added, 'line')} added, {formatting.count(removed, 'line')} removed."
    return join([tag("p", caption, class_="sub"), scrolling("Difference", tag("pre", *spans))])


def again(facts: Facts) -> Markup:
    """The command that begins the same run, and the versions of what wrote the page."""
    notes = (
        f"The task's folder had the digest {facts.header.task_digest}. A run of equal settings draws the same seeds, "
        "but threads that finish in another order give another run."
    )
    provenance = f"This page was written by {versions()}. The rows do not hold the versions that the run itself had."
    return scrolling(
        "Command",
        tag("pre", command({**facts.header.config, "task": reference_of(facts.header)})),
        tag("p", notes, class_="sub"),
        tag("p", provenance, class_="sub"),
    )


def foot(facts: Facts) -> Markup:
    """When the run began, and where its rows are."""
    began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(facts.account.began))
    return tag(
        "footer", f"A run of pace that began on {began}. Everything here is in its population.db; see pace db sql."
    )
