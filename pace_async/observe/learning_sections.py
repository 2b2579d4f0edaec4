"""The screen's learning sections: groups, versions, the last step, and the staleness of the trained rollouts.

Pure, as `sections` is: a view and a size in, lines out.
"""

from collections.abc import Mapping, Sequence

from rich.text import Text

from pace_async.observe import formatting
from pace_async.observe.chart import bar, spark
from pace_async.observe.lines import ACCENT, LABEL, QUIET, STRONG, Section, axed, figure, join_parts, labelled
from pace_async.observe.model import RunView
from pace_async.registry.objectives import objective_of


def learner(view: RunView, width: int, rows: int) -> Section:
    """Groups, versions, the last step's figures, and the mean reward of each group, in `rows` ≥ 4 lines. The reward is
    a chart where it has three lines. For a run that trains."""
    side, metrics = view.learner, view.learner.metrics
    groups = [
        figure(side.trained, "trained"),
        figure(side.skipped, "skipped"),
        *([figure(side.rollbacks, "rolled back")] if side.rollbacks else []),
        _next_group(view.leases.buffered, view.header.group_size),
    ]
    versions = [figure(side.version, "learner"), figure(side.published, "published")]
    steps = [_seconds("step", side.step_seconds), _seconds("pause", side.paused_seconds)]
    policy = [
        *([_metric("alpha", side.alpha, 2)] if objective_of(view.header.objective).uses_alpha else []),
        _metric("entropy", metrics.get("entropy"), unit=" nats"),
        _metric("loss", metrics.get("loss")),
        _metric("gradient", metrics.get("grad_norm")),
    ]
    room = width - LABEL
    timed = join_parts([*versions, *steps])
    lines = [labelled("groups", join_parts(groups))]
    lines.append(labelled("version", timed if timed.cell_len <= room else join_parts(versions)))
    if rows < 5 or join_parts(policy).cell_len <= room:
        lines.append(labelled("policy", join_parts(policy)))
    else:
        lines += [labelled("policy", join_parts(policy[:2])), labelled("", join_parts(policy[2:]))]
    ages = sorted(int(name.removeprefix("tokens_age_")) for name in metrics if name.startswith("tokens_age_"))
    if ages and rows - len(lines) >= 2:
        lines.append(labelled("usable", _usable(metrics, ages, room)))
    lines += _rewards(view, width, rows - len(lines))
    doing = {"waiting": "waiting for a group", "learn": "training", "publish": "publishing"}[side.stage]
    return Section("learner", lines, (doing, f"objective {view.header.objective}"))


def _next_group(ready: int, size: int) -> Text:
    """How many finished rollouts wait for training."""
    if ready > size:
        return figure(f"{ready}", f"ready for groups of {size}")
    return Text.assemble(f"{ready}", (f" of {size} rollouts for the next", QUIET))


def _usable(metrics: Mapping[str, float], ages: Sequence[int], room: int) -> Text:
    """The last step's usable share of data by age in updates: the effective sample size of the tokens of that age over
    their number."""
    shares = [(age, metrics.get(f"ess_age_{age}")) for age in ages]
    percentages = [(age, "–" if share is None else f"{100 * share:.0f} %") for age, share in shares]
    long = join_parts(
        [
            figure(share, f"of data {formatting.count(age, 'update')} old" if age else "of new data")
            for age, share in percentages
        ]
    )
    short = join_parts([figure(share, f"{age} old" if age else "new") for age, share in percentages])
    return long if long.cell_len <= room else short


def _seconds(name: str, seconds: float | None) -> Text:
    return Text("") if seconds is None else _metric(name, seconds, 2, " s")


def _metric(name: str, value: float | None, digits: int = 3, unit: str = "") -> Text:
    return Text.assemble(
        (f"{name} ", QUIET), formatting.number(value, digits), (unit if value is not None else "", QUIET)
    )


def _rewards(view: RunView, width: int, rows: int) -> list[Text]:
    rewards = view.learner.rewards
    last = figure(f"{rewards[-1]:.2f}", "mean of the last group") if rewards else Text("–")
    if rows < 4:
        curve = Text(spark(rewards[-24:], min(24, len(rewards))), style=ACCENT)
        line = labelled("reward", Text.assemble(curve, " " if rewards else "", last))
        return [line, *[Text("")] * (rows - 1)]
    return [labelled("reward", last), *axed(rewards, (width, rows - 1), ACCENT, (LABEL - 1, 2))]


def _limit(view: RunView) -> str:
    return f"updates, {formatting.bound_in_words(view.header.policy, view.header.max_staleness)}"


def staleness(view: RunView, width: int, rows: int) -> Section:
    """The staleness of the trained rollouts: one bar for each age in updates, in `rows` lines. Older ages share the
    last."""
    bound = view.header.max_staleness
    oldest = max([bound, *view.staleness])
    ages = range(min(rows, oldest + 1))
    counts = [view.staleness.get(age, 0) for age in ages]
    counts[-1] += sum(amount for age, amount in view.staleness.items() if age > ages[-1])
    total = sum(counts)
    room = max(4, width - 19)
    lines: list[Text] = []
    for age, amount in zip(ages, counts, strict=True):
        more = age == ages[-1] and oldest > age
        share = amount / total if total else 0.0
        lines.append(
            Text.assemble(
                (f"{'≥ ' if more else ''}{age}".rjust(4), STRONG),
                " ",
                (bar(share, room), ACCENT),
                f" {amount:>6,}",
                (f" {100 * share:>4.0f} %" if total else "", QUIET),
            )
        )
    lines += [Text("")] * (rows - len(lines))
    return Section("staleness when trained", lines, (_limit(view),))


def staleness_line(view: RunView) -> Text:
    """The same in one line."""
    ages = sorted(view.staleness.items())
    counts = (
        join_parts([Text.assemble((f"{age}: ", QUIET), f"{amount:,}") for age, amount in ages]) if ages else Text("–")
    )
    return labelled("staleness", Text.assemble(counts, (f"  ({_limit(view)})", QUIET)))
