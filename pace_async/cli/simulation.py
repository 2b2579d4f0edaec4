"""pace simulate: predicts the speed of a run of a given shape."""

import math
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from pace_async.cli.options import command_of, known_in
from pace_async.cli.output import JSON_OPTION, print_fields, print_json
from pace_async.cli.simulated_nodes import nodes_in_words, nodes_of
from pace_async.interface.opening import open_run
from pace_async.registry.staleness_policies import STALENESS_POLICIES
from pace_async.runtime.run_paths import find_run_paths

if TYPE_CHECKING:
    from pace_async.events import RunHeader
    from pace_async.simulate.durations import Durations
    from pace_async.simulate.predict import Scenario

THREADS = 8


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(command_of(SimulateFlags, simulate))


@dataclass(frozen=True, slots=True)
class SimulateFlags:
    """What `pace simulate` may be given."""

    like: str | None = typer.Option(
        None, "--like", metavar="RUN", help="Take the durations, and settings not given here, from an existing run."
    )
    threads: int | None = typer.Option(None, "--threads", min=1, help="Search threads [default: 8].")
    group_size: int | None = typer.Option(None, "--group-size", min=2, help="Rollouts in a group [default: 8].")
    max_staleness: int | None = typer.Option(
        None, "--max-staleness", min=0, help="Hard bound on training data's age [default: 2]."
    )
    eval_mean: float | None = typer.Option(None, "--eval-mean", help="Mean seconds of an evaluation [default: 60].")
    eval_cv: float = typer.Option(0.6, "--eval-cv", help="Their standard deviation over their mean (lognormal).")
    eval_cap: float | None = typer.Option(None, "--eval-cap", help="No evaluation takes longer, in seconds.")
    generation: float | None = typer.Option(
        None, "--generation", help="Seconds in which the advisor decides on one rollout [default: 5 % of the mean]."
    )
    learn: float | None = typer.Option(None, "--learn", help="Seconds of a step [default: 3 % of the mean].")
    pause: float | None = typer.Option(None, "--pause", help="Seconds of a push [default: 0.3 % of the mean].")
    candidates: int = typer.Option(2000, "--candidates", min=1, help="Candidates simulated.")
    policy: str | None = typer.Option(
        None,
        "--policy",
        help="How data is kept fresh; see `pace run --help` [default: pace].",
        metavar=STALENESS_POLICIES.metavar(),
        callback=known_in(STALENESS_POLICIES),
    )
    seed: int = typer.Option(0, "--seed", min=0, help="Every draw derives from it.")
    slots: int | None = typer.Option(
        None, "--slots", min=1, help="Evaluations that run at once [default: one for each thread]."
    )
    nodes: int | None = typer.Option(None, "--nodes", min=1, help="Machines that evaluate, and that may fail.")
    slots_per_node: int | None = typer.Option(
        None, "--slots-per-node", min=1, help="Evaluations at once on one of them [default: --threads over --nodes]."
    )
    node_mtbf: str | None = typer.Option(
        None, "--node-mtbf", metavar="TIME", help="A node's mean time to its failure, as in 6h [default: never fails]."
    )
    node_repair: str | None = typer.Option(
        None, "--node-repair", metavar="TIME", help="Until a failed node is back or replaced [default: 10m]."
    )
    preempt: float | None = typer.Option(
        None, "--preempt", help="Probability that an evaluation is preempted [default: 0]."
    )
    as_json: bool = JSON_OPTION


def simulate(flags: SimulateFlags) -> None:
    """Drive the runtime on simulated stages under a virtual clock, and the synchronous loop over the same durations.

    Example: pace simulate --threads 12 --group-size 8 --max-staleness 2 --eval-mean 600 --eval-cv 0.6

    Example: pace simulate --nodes 8 --slots-per-node 4 --threads 32 --node-mtbf 6h --preempt 0.05 --eval-mean 1800
    """
    if flags.like is not None:
        find_run_paths(flags.like)
    else:
        nodes_of(flags, flags.threads or THREADS)  # refuses before anything heavy is loaded
    from pace_async.observe import formatting
    from pace_async.simulate.predict import predict

    scenario = _scenario_of(flags)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # remove its folder in memory
    found = predict(scenario)
    if flags.as_json:
        print_json(found)
        return
    print_fields(_in_words(found, formatting.bound(scenario.policy, scenario.bound)))


def _scenario_of(flags: SimulateFlags) -> "Scenario":
    """The shape of the run: what the flags say, else the run of --like, else the defaults. Raises UsageError."""
    from pace_async.config import Config
    from pace_async.registry.objectives import trains
    from pace_async.simulate.predict import Scenario

    header, durations = _source_of(flags)
    made = Config.model_validate(dict(header.config)) if header else None
    bound = header.max_staleness if header else 2
    threads = flags.threads or (header.threads if header else THREADS)
    nodes = nodes_of(flags, threads)
    own = made.evaluation.slots if made else None
    return Scenario(
        threads=threads,
        group_size=flags.group_size or (header.group_size if header else 8),
        bound=bound if flags.max_staleness is None else flags.max_staleness,
        durations=replace(
            durations,
            generation=durations.generation if flags.generation is None else flags.generation,
            learning=durations.learning if flags.learn is None else flags.learn,
            pause=durations.pause if flags.pause is None else flags.pause,
        ),
        candidates=flags.candidates,
        policy=flags.policy or (made.staleness.policy if made else "pace"),
        slots=nodes.slots if nodes is not None else flags.slots or own,
        seed=flags.seed,
        learns=made is None or trains(made.learner.objective),
        nodes=nodes,
    )


def _source_of(flags: SimulateFlags) -> "tuple[RunHeader | None, Durations]":
    """The run of --like, if it is given, and durations: those of the run, or drawn ones. Raises UsageError."""
    from pace_async.errors import UsageError

    _refuse_unless_seconds(
        {
            "--eval-mean": flags.eval_mean,
            "--eval-cv": flags.eval_cv,
            "--eval-cap": flags.eval_cap,
            "--generation": flags.generation,
            "--learn": flags.learn,
            "--pause": flags.pause,
        }
    )
    if flags.like is None:
        return None, _drawn(flags.eval_mean, flags.eval_cv, flags.eval_cap, flags.seed)
    if flags.eval_mean is not None or flags.eval_cap is not None:
        raise UsageError("--like takes the evaluations from the run: leave --eval-mean and --eval-cap out.")
    return _recorded(flags.like, flags.seed)


def _refuse_unless_seconds(given: Mapping[str, float | None]) -> None:
    from pace_async.errors import UsageError

    for name, value in given.items():
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UsageError(f"{name} must be a number of at least 0, not {value}.")
    if given["--eval-mean"] == 0 or given["--eval-cap"] == 0:
        raise UsageError("--eval-mean and --eval-cap must be above 0: the prediction is relative to the evaluations.")


def _drawn(given: float | None, cv: float, cap: float | None, seed: int) -> "Durations":
    from pace_async.simulate.durations import Durations

    mean = 60.0 if given is None else given
    return Durations(
        seed=seed,
        evaluation_mean=mean,
        evaluation_cv=cv,
        evaluation_cap=cap,
        generation=0.05 * mean,
        learning=0.03 * mean,
        pause=0.003 * mean,
    )


def _recorded(run: str, seed: int) -> "tuple[RunHeader, Durations]":
    with open_run(run) as (_, reader):
        from pace_async.simulate.recorded import recorded_durations

        return reader.header(), recorded_durations(reader.recorded_seconds(), seed)


def _in_words(found: dict[str, Any], bound: str) -> dict[str, object]:
    ages: dict[int, int] = {int(age): amount for age, amount in found["staleness"].items()}
    total = sum(ages.values())
    shares = ", ".join(f"{age}: {100 * amount / total:.0f} %" for age, amount in ages.items()) or "nothing trained"
    terms = ", ".join(f"{name} {_rate(value)}" for name, value in found["terms"].items())
    thrown = f" ({found['trained_speedup']:.2f} without what was thrown away)" if found["expired"] else ""
    return {
        "speed-up over sync": f"{found['speedup']:.2f}{thrown}",
        "slot utilisation": f"{100 * found['slot_utilisation']:.0f} % of the threads' time",
        "staleness": f"{shares} (updates; {bound})",
        "expired": f"{found['expired']} of {found['candidates']} finished rollouts",
        "candidates an hour": f"{_rate(found['candidates_per_hour'])}; sync {_rate(found['sync_candidates_per_hour'])}",
        "roofline": f"{_rate(found['roofline'])} an hour, bound by {found['binding']} ({terms})",
        "advice": found["advice"],
        **(nodes_in_words(found["nodes"]) if found["nodes"] is not None else {}),
    }


def _rate(value: float) -> str:
    """A rate with more digits for slow runs, where a candidate takes hours."""
    return f"{value:,.1f}" if value >= 10 else f"{value:.3g}"
