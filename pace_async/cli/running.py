"""pace run and pace resume."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from pace_async.cli.completing import task_names
from pace_async.cli.options import CONFIG_OPTION, DISPLAY_OPTION, minutes, one_of, overrides_of
from pace_async.cli.output import RUN_ARGUMENT, print_fields, print_json, print_table, tell
from pace_async.registry.advisors import ADVISORS
from pace_async.registry.displays import DISPLAYS
from pace_async.registry.engines import ADVISOR_ENGINES
from pace_async.registry.evaluators import EVALUATORS
from pace_async.registry.implementers import IMPLEMENTERS
from pace_async.registry.objectives import OBJECTIVES
from pace_async.registry.staleness_policies import STALENESS_POLICIES
from pace_async.registry.watchers import WATCHERS

if TYPE_CHECKING:
    from pace_async.interface.beginning import Asked
    from pace_async.interface.series_of_runs import Ended
    from pace_async.runtime.run_paths import RunPaths
    from pace_async.runtime.series import Series

_LOG: list[str] | None = typer.Option(
    None,
    "--log",
    help=f"Write the run's figures into an experiment logger, too. {WATCHERS.described()} May be given several times.",
    metavar="NAME[=ARG]",
)


@dataclass(frozen=True, slots=True)
class RunFlags:
    """What `pace run` may be given."""

    task: str | None = typer.Argument(
        None, help="Task name or folder [default: circle_packing].", metavar="[TASK]", autocompletion=task_names
    )
    asynchronous: bool = typer.Option(False, "--async", help="Learn while searching [default].")
    synchronous: bool = typer.Option(False, "--sync", help="Learn behind a barrier.")
    max_staleness: int | None = typer.Option(None, "--max-staleness", help="Hard bound on training data's age.")
    policy: str | None = typer.Option(
        None,
        "--staleness-policy",
        help=STALENESS_POLICIES.described(),
        metavar=STALENESS_POLICIES.metavar(),
    )
    threads: int | None = typer.Option(None, "--threads", help="Search threads, each an island.")
    candidates: int | None = typer.Option(
        None, "--candidates", help="Stop after so many candidates [default: 240, or none with --updates or --minutes]."
    )
    updates: int | None = typer.Option(None, "--updates", help="Stop after so many groups.")
    minutes: float | None = typer.Option(
        None, "--minutes", parser=minutes, metavar="MINUTES", help="Stop after so many minutes."
    )
    budget: float | None = typer.Option(None, "--budget", help="Stop at so many USD.", metavar="USD")
    target: float | None = typer.Option(None, "--target", help="Stop at a score at least this good.")
    objective: str | None = typer.Option(None, "--objective", help=OBJECTIVES.described(), metavar=OBJECTIVES.metavar())
    advisor: str | None = typer.Option(
        None, "--advisor", help=f"What decides what to try. {ADVISORS.described()}", metavar=ADVISORS.metavar()
    )
    engine: str | None = typer.Option(None, "--engine", help=f"What serves the advisor. {ADVISOR_ENGINES.described()}")
    implementer: str | None = typer.Option(
        None, "--implementer", help=f"What writes the code. {IMPLEMENTERS.described()} Or several: a=3,b=1."
    )
    evaluators: str | None = typer.Option(
        None, "--evaluators", help=f"Where programs run. {EVALUATORS.described()}", metavar=EVALUATORS.metavar()
    )
    start_from: str | None = typer.Option(
        None,
        "--start-from",
        help="Begin with the best programs of an earlier run, and by RUN alone with what it learned.",
        metavar="RUN[@best:K|@all]",
    )
    advisor_from: str | None = typer.Option(
        None,
        "--advisor-from",
        help="Begin with the advisor that an earlier run trained, by default its newest version.",
        metavar="RUN[@VERSION]",
    )
    start_with: list[str] | None = typer.Option(
        None, "--start-with", help="A program of your own, or a folder of them, to be evaluated first.", metavar="PATH"
    )
    config: list[Path] | None = CONFIG_OPTION
    sets: list[str] | None = typer.Option(None, "--set", help="Any setting, such as learner.k=2.", metavar="KEY=VALUE")
    run_dir: Path | None = typer.Option(None, "--run-dir", help="Folder of the run [default: runs/TASK-N].")
    database: str | None = typer.Option(
        None,
        "--db",
        help="PostgreSQL for the population, instead of a file: postgresql://USER@HOST/NAME.",
        metavar="URL",
    )
    seed: int | None = typer.Option(
        None, "--seed", help="Every random draw derives from it. Only some runs repeat: docs/async-or-sync.md."
    )
    seeds: str | None = typer.Option(
        None,
        "--seeds",
        help="So many runs one after the other, of this seed and the next ones. A folder: one run, as of --start-with.",
        metavar="N|FOLDER",
    )
    unsafe: bool = typer.Option(
        False, "--unsafe-no-sandbox", help="Run candidates without isolation: only code you trust."
    )
    sandbox: bool = typer.Option(False, "--sandbox", help="Run candidates in the sandbox [default].")
    display: str = DISPLAY_OPTION
    logs: list[str] | None = _LOG
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the plan. Nothing is written or called.")
    verbose: bool = typer.Option(False, "--verbose", help="With --dry-run: every setting too, as a file for --config.")
    as_json: bool = typer.Option(False, "--json", help="With --dry-run: print JSON for programs.")

    def settings(self) -> dict[str, object]:
        """The settings that flags stand for, None for a flag that was not given. Raises UsageError."""
        return {
            "task": self.task,
            "staleness.mode": one_of({"--async": self.asynchronous, "--sync": self.synchronous}, ("async", "sync")),
            "staleness.max_staleness": self.max_staleness,
            "staleness.policy": self.policy,
            "search.threads": self.threads,
            "stop.candidates": self.candidates,
            "stop.updates": self.updates,
            "stop.minutes": self.minutes,
            "stop.budget": self.budget,
            "stop.target": self.target,
            "learner.objective": self.objective,
            "advisor.model": self.advisor,
            "advisor.engine": self.engine,
            "implementer.model": self.implementer,
            "evaluation.evaluators": self.evaluators,
            "search.start_from": self.start_from,
            "advisor.start_from": self.advisor_from,
            "search.start_with": self.start_with,
            "seed": self.seed,
            "population.url": self.database,
            "evaluation.unsafe_no_sandbox": one_of(
                {"--unsafe-no-sandbox": self.unsafe, "--sandbox": self.sandbox}, (True, False)
            ),
        }


def run(flags: RunFlags) -> None:
    """Search, and learn while searching.

    On a terminal keys pause the run or continue it (p), show the best program (b) and other panels (n), and ? lists
    them. None is needed, and without a terminal there are none. A pause opens no new candidates and ends none.

    With --seeds N runs follow one another that differ only in the seed, named by it (NAME-s1) in the folder runs/NAME,
    with a row for each at the end. The budget holds for all together, in equal shares. Ctrl-C ends the series. The same
    command again, and `pace resume` with its folder, go on with what is missing.

    Example: pace run circle_packing --async --max-staleness 2 --candidates 16

    Example: pace run --sync --candidates 160 --dry-run
    """
    from pace_async.errors import UsageError
    from pace_async.interface.beginning import Asked, begin

    request = Asked(
        settings=overrides_of(flags.sets, flags.settings()),
        files=flags.config or (),
        run_dir=flags.run_dir,
        seeds=flags.seeds,
        display=flags.display,
        logs=flags.logs or (),
    )
    if request.config.staleness.mode == "sync" and flags.max_staleness:
        raise UsageError(f"--sync trains nothing stale: --max-staleness {flags.max_staleness} goes with --async.")
    if flags.dry_run:
        _planned(request, flags.verbose, flags.as_json)
        return
    if flags.verbose:
        raise UsageError("--verbose goes with --dry-run: `pace config show` prints the settings.")
    if flags.as_json:
        raise UsageError("--json goes with --dry-run: `pace status RUN --json` reads a run, also while it goes on.")
    _tell_end(begin(request), flags.display)


def _tell_end(ended: "Ended", display: str) -> None:
    """Exit as the runs ended, after a row for each run of a series."""
    if ended.series is not None and DISPLAYS[display].announces:
        _tell_summary(ended.series)
    raise typer.Exit(ended.code)


def _tell_summary(series: "Series") -> None:
    """What each run of the series came to, and how the series goes on where a run is missing or did not end."""
    tell("")
    print_table([_row(seed, series.paths(seed)) for seed in series.seeds])
    tell(f"\n`pace compare {series.folder}` compares the runs, with the interval of their mean.")
    if series.unfinished():
        tell(f"`pace resume {series.folder}` goes on with the series.")


def _row(seed: int, paths: "RunPaths") -> dict[str, object]:
    from pace_async.observe.spending import spent_usd
    from pace_async.observe.standing import says_nothing
    from pace_async.population.reading.reader import open_readonly

    names = ("candidates", "best", "fresh score", "spend")
    if not paths.holds_run:
        return {"seed": seed, "run": paths.name, "state": "not begun", **dict.fromkeys(names)}
    where, name = paths.population
    with open_readonly(where, name) as reader:
        status, header = reader.status(), reader.header()
    unpriced = [role for role, cost in status["spend_by_role"].items() if cost is None]
    usd = spent_usd(status["spend_known_usd"], unpriced)
    best, fresh = status["best_score"], status["best_fresh_score"]
    values = (
        status["candidates"],
        best,
        "the same" if fresh is not None and says_nothing(best, fresh, header) else fresh,
        usd,
    )
    return {"seed": seed, "run": paths.name, "state": status["state"], **dict(zip(names, values, strict=True))}


def _planned(request: "Asked", verbose: bool, as_json: bool) -> None:
    """Print what a run or a series of them would do."""
    from pace_async.cli.dry_run import Planned, dry_run, dry_run_of_series, dry_run_text, lines_of

    if request.runs is None:
        planned = dry_run(request.config, request.folder)
    else:
        planned = dry_run_of_series(request.config, request.folder, request.runs)
    if as_json:
        from pydantic import TypeAdapter

        print_json(TypeAdapter(Planned).dump_python(planned, mode="json"))
    elif verbose:
        tell(dry_run_text(planned), nl=False)
    else:
        print_fields(lines_of(planned))


class ResumeCommand(TyperCommand):
    """Its help has the settings that may change. They are read when somebody asks for the help."""

    def get_help(self, ctx: Any) -> str:
        from pace_async.configure import that_may_change

        whole, others = that_may_change()
        parts = [f"{room}: {', '.join(names)}." for room, names in others.items()]
        self.help = (self.help or "").format(
            whole=f"{', '.join(whole[:-1])} and {whole[-1]}", others="\n\n".join(parts)
        )
        return super().get_help(ctx)


@dataclass(frozen=True, slots=True)
class ResumeFlags:
    """What `pace resume` may be given."""

    run: str | None = RUN_ARGUMENT
    candidates: int | None = typer.Option(None, "--candidates", help="New limit of candidates, earlier ones included.")
    updates: int | None = typer.Option(None, "--updates", help="New limit of groups.")
    minutes: float | None = typer.Option(None, "--minutes", parser=minutes, metavar="MINUTES", help="Minutes from now.")
    budget: float | None = typer.Option(
        None, "--budget", help="New limit in USD, earlier spending included.", metavar="USD"
    )
    target: float | None = typer.Option(None, "--target", help="New target score.")
    implementer: str | None = typer.Option(None, "--implementer", help="What writes the code from now on.")
    sets: list[str] | None = typer.Option(None, "--set", help="A setting that may change.", metavar="KEY=VALUE")
    max_staleness: int | None = typer.Option(None, "--max-staleness", help="May be raised, never lowered.")
    threads: int | None = typer.Option(None, "--threads", help="As in this run: another number is refused.")
    despite_loss: bool = typer.Option(False, "--despite-loss", help="Give up committed rows that were lost.")
    display: str = DISPLAY_OPTION
    logs: list[str] | None = _LOG


def resume(flags: ResumeFlags) -> None:
    """Go on exactly where the committed rows say. With the folder of a series, with those of its runs that are missing
    or did not end.

    A finished run has nothing to do, unless the limit that ended it is raised. Minutes are counted from now: a run that
    --minutes ended goes on for as many again. What --set changes is recorded and holds for later resumes. It takes
    settings that leave alone what the recorded groups train and what scores compare: all of {whole}, and of the others
    these.

    {others}

    The number of threads stays, because each thread is an island, and the islands are there.

    Where the newest committed rows are missing, as when population.db-wal was removed after a crash, nothing is done
    before --despite-loss says that they may be given up. The search then goes on from the older rows.

    Example: pace resume circle_packing-1
    """
    from pace_async.interface.beginning import AskedOn, go_on

    changes: dict[str, object] = {
        "stop.candidates": flags.candidates,
        "stop.updates": flags.updates,
        "stop.minutes": flags.minutes,
        "stop.budget": flags.budget,
        "stop.target": flags.target,
        "implementer.model": flags.implementer,
        "staleness.max_staleness": flags.max_staleness,
        "search.threads": flags.threads,
    }
    request = AskedOn(
        run=flags.run,
        settings=overrides_of(flags.sets, changes),
        display=flags.display,
        logs=flags.logs or (),
        despite_loss=flags.despite_loss,
    )
    _tell_end(go_on(request), flags.display)
