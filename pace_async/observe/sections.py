"""What each part of the screen says.

Pure: a view, the present and a size in, lines out; the number of lines depends on the size alone, so that a frame never
changes its height.
"""

from rich.text import Text

from pace_async.observe import words
from pace_async.observe.chart import area, bar, spark
from pace_async.observe.lines import ACCENT, GOOD, QUIET, STRONG, WARN, Section, figure, joined, labelled, spread
from pace_async.observe.model import NoteKind, RunView, Stage
from pace_async.observe.progress import progress
from pace_async.observe.text import clean

STAGE_STYLES: dict[Stage, str] = {"advise": "magenta", "implement": "blue", "evaluate": ACCENT, "waiting": QUIET}
STAGE_MARKS: dict[Stage, str] = {"advise": "▲", "implement": "◆", "evaluate": "■", "waiting": "·"}
NOTE_MARKS: dict[NoteKind, tuple[str, str]] = {
    "seed": ("▶", ""),
    "best": ("★", GOOD),
    "candidate": ("·", QUIET),
    "group": ("●", ACCENT),
    "published": ("↑", ACCENT),
    "fault": ("!", WARN),
    "state": ("▶", STRONG),
}
STATE_STYLES = {"running": GOOD, "done": GOOD, "draining": WARN, "crashed": "red", "gave_up": "red"}


def title(view: RunView, now: float, width: int) -> Text:
    """The run's name and state."""
    left = Text.assemble(
        ("pace", f"{STRONG} {ACCENT}"), "  ", (clean(view.header.name), STRONG), (f"  {clean(view.header.task)}", QUIET)
    )
    state = Text.assemble(
        (clean(view.state).replace("_", " "), STATE_STYLES.get(view.state, WARN)),
        "  ",
        (words.duration(view.elapsed(now)), STRONG),
    )
    return spread(left, state, width)


def setting(view: RunView) -> Text:
    """What runs, in one quiet line."""
    header = view.header
    mode = f"staleness ≤ {header.max_staleness}" if header.max_staleness else "synchronous"
    parts = (
        f"objective {header.objective}",
        f"advisor {clean(header.advisor)} ({clean(header.engine)})",
        f"implementer {clean(header.implementer)}",
        f"sandbox {clean(header.sandbox)}",
        words.count(header.threads, "thread"),
        f"groups of {header.group_size}",
        mode,
        f"seed {header.seed}",
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
    """The best score, where it comes from, and its curve over the candidates; `rows` ≥ 3 lines."""
    arrow = "higher is better" if view.header.direction == "maximize" else "lower is better"
    curve = view.best_so_far(width - 9)
    low, high = (min(curve), max(curve)) if curve else (0.0, 0.0)
    height = rows - 3
    chart = area(curve, width - 9, height)
    lines = [_best_score(view), _best_origin(view, now)]
    for row, blocks in enumerate(chart):
        axis = words.score(high) if row == 0 else words.score(low) if row == height - 1 else ""
        axis = axis if curve and (row == 0 or high > low) else ""
        lines.append(Text.assemble((axis[:8].rjust(8), QUIET), " ", (blocks, GOOD)))
    lines.append(_experiment(view))
    return Section("best so far", lines, arrow)


def _best_score(view: RunView) -> Text:
    if view.best is None:
        return Text("no score yet", style=QUIET)
    shown = Text(words.score(view.best.score), style=f"{STRONG} {GOOD}")
    if view.seed_score is None:
        return shown
    gain = view.best.score - view.seed_score
    seed = (f"seed program {words.score(view.seed_score)}", QUIET)
    change = f"{'+' if gain >= 0 else '−'}{words.score(abs(gain))}"
    target = f" · target {words.score(view.stop.target)}" if view.stop.target is not None else ""
    return Text.assemble(shown, "  ", change, (" from the ", QUIET), seed, (target, QUIET))


def _best_origin(view: RunView, now: float) -> Text:
    if view.best is None:
        return Text("")
    if view.best.candidate == 0:
        return Text("the task's own program; no candidate is better yet", style=QUIET)
    end = view.ended_at if view.ended_at is not None else now
    return joined(
        [
            Text.assemble(("candidate ", QUIET), str(view.best.candidate)),
            Text.assemble(("island ", QUIET), str(view.best.island)),
            Text(f"{words.duration(end - view.best.at)} {'before the end' if view.ended_at else 'ago'}", style=QUIET),
        ]
    )


def _experiment(view: RunView) -> Text:
    return Text(view.best.experiment if view.best is not None else "")


def search(view: RunView, now: float) -> Section:
    """Candidates, threads, leases, and what came from outside: 5 lines."""
    rate = view.per_minute(now)
    ok = view.outcomes.get("ok", 0)
    failed = sorted(((amount, name) for name, amount in view.outcomes.items() if name != "ok"), reverse=True)
    outcomes = [figure(ok, "scored"), *(figure(amount, name.replace("_", " ")) for amount, name in failed)]
    leases = view.leases
    faults = figure(view.faults, "fault" if view.faults == 1 else "faults", WARN if view.faults else "")
    return Section(
        "search",
        [
            labelled("candidates", joined([figure(f"{view.candidates:,}", "complete"), _rate(rate)])),
            labelled("outcomes", joined(outcomes)),
            labelled("threads", _threads(view)),
            labelled(
                "leases",
                joined(
                    [
                        figure(leases.open, "open"),
                        figure(leases.in_flight, "in flight"),
                        figure(leases.buffered, "complete"),
                        figure(leases.training, "in training"),
                    ]
                ),
            ),
            labelled(
                "outside",
                joined([faults, figure(words.usd(view.spend_usd), "spent"), _calls(view)]),
            ),
        ],
        words.count(view.header.threads, "thread"),
    )


def _calls(view: RunView) -> Text:
    return figure(f"{view.implementer_calls:,}", "implementer call" + ("" if view.implementer_calls == 1 else "s"))


def _rate(rate: float | None) -> Text:
    return figure(words.number(rate), "a minute")


def _threads(view: RunView) -> Text:
    counts = view.by_stage()
    strip = Text()
    if view.header.threads <= 16:
        for stage, amount in counts.items():
            strip.append(STAGE_MARKS[stage] * amount, style=STAGE_STYLES[stage])
        strip.append("  ")
    named = [figure(amount, stage, STAGE_STYLES[stage]) for stage, amount in counts.items()]
    return Text.assemble(strip, joined(named))


def learner(view: RunView, rows: int) -> Section:
    """Groups, versions, the last step's figures; the mean reward of each group as a curve in what is left of `rows`
    ≥ 5 lines."""
    if view.header.objective == "none":
        return Section("learner", [Text("objective none: nothing is trained", style=QUIET), *[Text("")] * (rows - 1)])
    side = view.learner
    doing = {"waiting": "waiting for a group", "learn": "training", "publish": "publishing"}[side.stage]
    lines = [
        labelled(
            "groups",
            joined(
                [
                    figure(side.trained, "trained"),
                    figure(side.skipped, "skipped"),
                    figure(f"{view.leases.buffered} of {view.header.group_size}", "for the next"),
                ]
            ),
        ),
        labelled(
            "version",
            joined([figure(side.version, "learner"), figure(side.published, "published"), _seconds(side.step_seconds)]),
        ),
        labelled(
            "step",
            joined(
                [
                    _metric("alpha", side.alpha, 2),
                    _metric("loss", side.metrics.get("loss")),
                ]
            ),
        ),
        labelled(
            "policy",
            joined(
                [
                    Text.assemble(_metric("entropy", side.metrics.get("entropy")), (" nats", QUIET)),
                    _metric("gradient norm", side.metrics.get("grad_norm")),
                ]
            ),
        ),
        *_rewards(view, rows - 4),
    ]
    return Section("learner", lines, doing)


def _seconds(seconds: float | None) -> Text:
    return Text("") if seconds is None else Text.assemble(("step ", QUIET), f"{seconds:.2f}", (" s", QUIET))


def _metric(name: str, value: float | None, digits: int = 3) -> Text:
    return Text.assemble((f"{name} ", QUIET), words.number(value, digits))


def _rewards(view: RunView, rows: int) -> list[Text]:
    rewards = view.learner.rewards
    last = figure(f"{rewards[-1]:.2f}", "mean of the last group") if rewards else Text("–")
    if rows == 1:
        return [labelled("reward", Text.assemble((spark(rewards[-16:], min(16, len(rewards))), ACCENT), " ", last))]
    chart = area(rewards, 40, rows - 1)
    return [labelled("reward", last), *(labelled("", Text(line, style=ACCENT)) for line in chart)]


def staleness(view: RunView, width: int, rows: int) -> Section:
    """How stale the trained rollouts were, one bar for each age in updates; `rows` lines, older ages share the last."""
    bound = view.header.max_staleness
    oldest = max([bound, *view.staleness])
    ages = range(min(rows, oldest + 1))
    counts = [view.staleness.get(age, 0) for age in ages]
    counts[-1] += sum(amount for age, amount in view.staleness.items() if age > ages[-1])
    total = sum(counts)
    room = max(4, width - 24)
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
    return Section("staleness of trained rollouts", lines, f"in updates, at most {bound}")


def staleness_line(view: RunView) -> Text:
    """The same in one line."""
    ages = sorted(view.staleness.items())
    shown = joined([Text.assemble((f"{age}: ", QUIET), f"{amount:,}") for age, amount in ages]) if ages else Text("–")
    return labelled("staleness", Text.assemble(shown, (f"  (updates, at most {view.header.max_staleness})", QUIET)))


def events(view: RunView, rows: int) -> Section:
    """The last `rows` notes, newest at the bottom."""
    notes = view.notes[-rows:] if rows else ()
    begin = view.started_at
    lines: list[Text] = []
    for note in notes:
        mark, style = NOTE_MARKS[note.kind]
        at = words.duration(note.at - begin) if begin is not None else ""
        quiet = QUIET if note.kind in ("candidate", "published") else ""
        lines.append(Text.assemble((f"{at:>7} ", QUIET), (mark, style), " ", (note.text, quiet)))
    return Section("last events", [*lines, *[Text("")] * (rows - len(lines))])
