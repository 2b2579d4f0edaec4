"""What each part of the screen says.

Pure: a view, the present and a size in, lines out; the number of lines depends on the size alone, so that a frame never
changes its height.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.text import Text

from pace_async.observe import words
from pace_async.observe.chart import area, bar, spark
from pace_async.observe.lines import ACCENT, GOOD, LABEL, QUIET, STRONG, WARN, Section, figure, joined, labelled, spread
from pace_async.observe.model import Note, NoteKind, RunView, Stage
from pace_async.observe.progress import progress
from pace_async.observe.text import clean

STAGE_STYLES: dict[Stage, str] = {"advise": "magenta", "implement": "blue", "evaluate": ACCENT, "waiting": QUIET}
STAGE_MARKS: dict[Stage, str] = {"advise": "▲", "implement": "◆", "evaluate": "■", "waiting": "·"}
AXIS = 8
NOTE_MARKS: dict[NoteKind, tuple[str, str]] = {
    "seed": ("▶", ""),
    "best": ("★", GOOD),
    "candidate": ("·", QUIET),
    "group": ("●", ACCENT),
    "fault": ("!", WARN),
    "state": ("▶", STRONG),
}
STAGE_SHORT: dict[Stage, str] = {"advise": "adv", "implement": "impl", "evaluate": "eval", "waiting": "wait"}
STATE_STYLES = {"running": GOOD, "done": GOOD, "draining": WARN, "crashed": "red", "gave_up": "red"}


def title(view: RunView, now: float, width: int) -> Text:
    """The run's name, its task and its state."""
    direction = "higher" if view.header.direction == "maximize" else "lower"
    left = Text.assemble(
        ("pace", f"{STRONG} {ACCENT}"),
        "  ",
        (clean(view.header.name), STRONG),
        (f"  {clean(view.header.task)}, {direction} is better", QUIET),
    )
    state = Text.assemble(
        (clean(view.state).replace("_", " "), STATE_STYLES.get(view.state, WARN)),
        "  ",
        (words.duration(view.elapsed(now)), STRONG),
    )
    return spread(left, state, width)


def setting(view: RunView) -> Text:
    """What runs, in one quiet line, the most telling first."""
    header = view.header
    parts = (
        f"advisor {clean(header.advisor)} ({clean(header.engine)})",
        f"implementer {clean(header.implementer)}",
        f"groups of {header.group_size}",
        f"staleness ≤ {header.max_staleness}" if header.max_staleness else "synchronous",
        f"seed {header.seed}",
        f"sandbox {clean(header.sandbox)}",
    )
    return Text(" · ".join(parts), style=QUIET)


def stop_bar(view: RunView, now: float, width: int) -> Text:
    """A bar for the stop rule that is furthest along, and its words."""
    rules = progress(view, now)
    if not rules:
        return Text("no stop rule: runs until it is interrupted", style=QUIET)
    first = rules[0]
    left = first.seconds_left if view.ended_at is None else None
    said = joined(
        [
            Text(f"{100 * first.share:.0f} %", style=STRONG),
            first.words,
            Text(f"about {words.duration(left)} left", style=QUIET) if left is not None else "",
        ]
    )
    room = width - said.cell_len - 2
    if room < 8:
        return said
    full = round(room * first.share)
    return Text.assemble(("━" * full, ACCENT), ("─" * (room - full), QUIET), "  ", said)


def best(view: RunView, now: float, width: int, rows: int) -> Section:
    """The best score, its experiment and its curve over the candidates; `rows` ≥ 3 lines."""
    curve = view.best_so_far(width - AXIS - 1)
    lines = [_best_score(view), *axed(curve, width, rows - 2, GOOD, AXIS, 4), _experiment(view)]
    return Section("best so far", lines, _best_origin(view, now))


def axed(values: tuple[float, ...], width: int, rows: int, style: str, axis: int, digits: int) -> list[Text]:
    """An area chart with its highest and lowest value at its left; the surface stands out from what is below it."""
    if not values:
        return [Text("") for _ in range(rows)]
    low, high = min(values), max(values)
    labels = [""] * rows
    labels[0], labels[-1] = (f"{high:.{digits}f}" if high > low else ""), f"{low:.{digits}f}"
    lines: list[Text] = []
    above = " " * width
    for label, blocks in zip(labels, area(values, width - axis - 1, rows), strict=True):
        line = Text.assemble((label[:axis].rjust(axis), QUIET), " ")
        for surface, run in groupby(zip(above, blocks, strict=False), key=lambda pair: pair[0] == " "):
            line.append("".join(block for _, block in run), style=style if surface else f"{style} {QUIET}")
        lines.append(line)
        above = blocks
    return lines


def _best_score(view: RunView) -> Text:
    if view.best is None:
        return Text("no score yet", style=QUIET)
    shown = Text(words.score(view.best.score), style=f"{STRONG} {GOOD}")
    if view.seed_score is None or view.best.candidate == 0:
        return shown
    gain = view.best.score - view.seed_score
    change = f"{'+' if gain >= 0 else '−'}{words.score(abs(gain))}"
    return Text.assemble(shown, "  ", change, (f" from the seed program's {words.score(view.seed_score)}", QUIET))


def _best_origin(view: RunView, now: float) -> tuple[str, ...]:
    if view.best is None:
        return ()
    if view.best.candidate == 0:
        return ("the seed program",)
    end = view.ended_at if view.ended_at is not None else now
    ago = f"{words.duration(end - view.best.at)} {'before the end' if view.ended_at is not None else 'ago'}"
    return (f"candidate {view.best.candidate}", ago, f"island {view.best.island}")


def _experiment(view: RunView) -> Text:
    if view.best is None or view.best.candidate == 0:
        return Text(
            "the seed program's score: no candidate is better yet" if view.best is not None else "", style=QUIET
        )
    return Text(view.best.experiment)


def search(view: RunView, now: float, width: int) -> Section:
    """Candidates, threads, leases, and what came from outside: 5 lines."""
    rate = view.per_minute(now)
    failed = sorted(((amount, name) for name, amount in view.outcomes.items() if name != "ok"), reverse=True)
    outcomes = [
        figure(view.outcomes.get("ok", 0), "scored"),
        *(figure(amount, name.replace("_", " ")) for amount, name in failed),
    ]
    leases = [
        figure(view.leases.in_flight, "in flight"),
        figure(view.leases.buffered, "complete"),
        figure(view.leases.training, "training"),
    ]
    services = [
        figure(view.faults, "fault" if view.faults == 1 else "faults", WARN if view.faults else ""),
        Text(words.usd(view.spend_usd)),
        figure(f"{view.implementer_calls:,}", "implementer call" + ("" if view.implementer_calls == 1 else "s")),
    ]
    done = figure(f"{view.candidates:,}", "candidates")
    busy = view.ledger.utilisation(view.header.threads, view.elapsed(now), min(now, view.ended_at or now))
    aside = (
        words.count(view.header.threads, "thread"),
        f"{words.count(view.leases.open, 'lease')} open",
        words.ledger(busy, view.ledger.limits(view.header)).removeprefix("threads "),
    )
    return Section(
        "search",
        [
            labelled("finished", joined([done, figure(words.number(rate), "a minute") if rate is not None else ""])),
            labelled("outcomes", joined(outcomes)),
            labelled("threads", _threads(view, width - LABEL)),
            labelled("leases", joined(leases)),
            labelled("services", joined(services)),
        ],
        tuple(part for part in aside if part),
    )


def _threads(view: RunView, width: int) -> Text:
    counts = view.by_stage()
    strip = Text()
    for stage, amount in counts.items():
        strip.append(STAGE_MARKS[stage] * amount, style=STAGE_STYLES[stage])
    busy: list[tuple[Stage, int]] = [(stage, amount) for stage, amount in counts.items() if amount]
    named = joined([figure(amount, stage, STAGE_STYLES[stage]) for stage, amount in busy])
    if strip.cell_len + 2 + named.cell_len <= width:
        return Text.assemble(strip, "  ", named)
    if named.cell_len <= width:
        return named
    return joined([figure(amount, STAGE_SHORT[stage], STAGE_STYLES[stage]) for stage, amount in busy])


def learner(view: RunView, width: int, rows: int) -> Section:
    """Groups, versions, the last step's figures, and the mean reward of each group; `rows` ≥ 4 lines, the reward a
    chart where it has three of them."""
    if view.header.objective == "none":
        nothing = Text("nothing is trained: the advisor stays as it was given", style=QUIET)
        return Section("learner", [nothing, *[Text("")] * (rows - 1)], ("objective none",))
    side, metrics = view.learner, view.learner.metrics
    groups = [
        figure(side.trained, "trained"),
        figure(side.skipped, "skipped"),
        Text.assemble(("next ", QUIET), f"{view.leases.buffered}", (f" of {view.header.group_size}", QUIET)),
    ]
    versions = [figure(side.version, "learner"), figure(side.published, "published")]
    steps = [_seconds("step", side.step_seconds), _seconds("pause", side.paused_seconds)]
    policy = [
        _metric("alpha", side.alpha, 2),
        _metric("entropy", metrics.get("entropy"), unit=" nats"),
        _metric("loss", metrics.get("loss")),
        _metric("gradient", metrics.get("grad_norm")),
    ]
    room = width - LABEL
    timed = joined([*versions, *steps])
    lines = [labelled("groups", joined(groups))]
    lines.append(labelled("version", timed if timed.cell_len <= room else joined(versions)))
    if rows < 5 or joined(policy).cell_len <= room:
        lines.append(labelled("policy", joined(policy)))
    else:
        lines += [labelled("policy", joined(policy[:2])), labelled("", joined(policy[2:]))]
    ages = sorted(int(name.removeprefix("tokens_age_")) for name in metrics if name.startswith("tokens_age_"))
    if ages and rows - len(lines) >= 2:
        lines.append(labelled("by age", _by_age(metrics, ages, room)))
    lines += _rewards(view, width, rows - len(lines))
    doing = {"waiting": "waiting for a group", "learn": "training", "publish": "publishing"}[side.stage]
    return Section("learner", lines, (doing, f"objective {view.header.objective}"))


def _by_age(metrics: Mapping[str, float], ages: Sequence[int], room: int) -> Text:
    """Of the last step, for each age of tokens: effective sample size, share clipped, divergence; as many as fit."""
    line = Text("")
    for figures in (("ess", "clip", "k3"), ("ess", "clip"), ("ess",)):
        parts: list[Text] = []
        for age in ages:
            shown = {
                "ess": words.number(metrics.get(f"ess_age_{age}"), 2),
                "clip": words.number(metrics.get(f"clip_fraction_age_{age}"), 2),
                "k3": words.number(metrics.get(f"k3_age_{age}"), 2),
            }
            told = [item for name in figures for item in ((f" {name} ", QUIET), shown[name])]
            parts.append(Text.assemble((f"{age}:", STRONG), *told))
        line = joined(parts)
        if line.cell_len <= room:
            break
    return line


def _seconds(name: str, seconds: float | None) -> Text:
    return Text("") if seconds is None else _metric(name, seconds, 2, " s")


def _metric(name: str, value: float | None, digits: int = 3, unit: str = "") -> Text:
    return Text.assemble((f"{name} ", QUIET), words.number(value, digits), (unit if value is not None else "", QUIET))


def _rewards(view: RunView, width: int, rows: int) -> list[Text]:
    rewards = view.learner.rewards
    last = figure(f"{rewards[-1]:.2f}", "mean of the last group") if rewards else Text("–")
    if rows < 4:
        curve = Text(spark(rewards[-24:], min(24, len(rewards))), style=ACCENT)
        line = labelled("reward", Text.assemble(curve, " " if rewards else "", last))
        return [line, *[Text("")] * (rows - 1)]
    return [labelled("reward", last), *axed(rewards, width, rows - 1, ACCENT, LABEL - 1, 2)]


def staleness(view: RunView, width: int, rows: int) -> Section:
    """How stale the trained rollouts were, one bar for each age in updates; `rows` lines, older ages share the last."""
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
    return Section("staleness when trained", lines, (f"updates, at most {bound}",))


def staleness_line(view: RunView) -> Text:
    """The same in one line."""
    ages = sorted(view.staleness.items())
    shown = joined([Text.assemble((f"{age}: ", QUIET), f"{amount:,}") for age, amount in ages]) if ages else Text("–")
    return labelled("staleness", Text.assemble(shown, (f"  (updates, at most {view.header.max_staleness})", QUIET)))


def events(view: RunView, rows: int) -> Section:
    """The last notes in `rows` lines, newest at the bottom. Candidates that are no new best take half of the lines at
    most while there is something else to tell."""
    lines: list[Text] = []
    for note in recent(view.notes, rows):
        mark, style = NOTE_MARKS[note.kind]
        at = words.duration(note.at - view.started_at) if view.started_at is not None else ""
        quiet = QUIET if note.kind == "candidate" else ""
        lines.append(Text.assemble((f"{at:>7} ", QUIET), (mark, style), " ", (note.text, quiet)))
    return Section("last events", [*lines, *[Text("")] * (rows - len(lines))])


def recent(notes: Sequence[Note], rows: int) -> list[Note]:
    """The newest `rows` notes in their order, at most half of them about ordinary candidates if others are there."""
    telling = [index for index, note in enumerate(notes) if note.kind != "candidate"]
    ordinary = [index for index, note in enumerate(notes) if note.kind == "candidate"]
    few = min(len(ordinary), max(rows - len(telling), rows // 2))
    chosen = sorted(telling[max(0, len(telling) - rows + few) :] + ordinary[len(ordinary) - few :])
    return [notes[index] for index in chosen]
