"""pace simulate: what a run of a given shape would reach, before anything is spent on it."""

from typing import Any, Literal

import typer

from pace_async.cli.output import JSON_OPTION, print_fields, print_json

Policy = Literal["pace", "soft", "drop"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


def simulate(
    threads: int = typer.Option(8, "--threads", min=1, help="Search threads."),
    group_size: int = typer.Option(8, "--group-size", min=2, help="Rollouts in a group."),
    max_staleness: int = typer.Option(2, "--max-staleness", min=0, help="Hard bound on training data's age."),
    eval_mean: float = typer.Option(60.0, "--eval-mean", help="Mean seconds of an evaluation."),
    eval_cv: float = typer.Option(0.6, "--eval-cv", help="Their standard deviation over their mean (lognormal)."),
    eval_cap: float | None = typer.Option(None, "--eval-cap", help="No evaluation takes longer, in seconds."),
    generation: float | None = typer.Option(
        None, "--generation", help="Seconds in which the advisor decides on one rollout [default: 5 % of the mean]."
    ),
    learn: float | None = typer.Option(None, "--learn", help="Seconds of a step [default: 3 % of the mean]."),
    pause: float | None = typer.Option(None, "--pause", help="Seconds of a push [default: 0.3 % of the mean]."),
    candidates: int = typer.Option(2000, "--candidates", min=1, help="Candidates simulated."),
    policy: Policy = typer.Option("pace", "--policy", help="How data is kept fresh; see `pace run --help`."),
    seed: int = typer.Option(0, "--seed", min=0, help="Every draw derives from it."),
    slots: int | None = typer.Option(
        None, "--slots", min=1, help="Evaluations that run at once [default: one for each thread]."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Drive the runtime on simulated stages under a virtual clock, and the synchronous loop over the same durations.

    Example: pace simulate --threads 12 --group-size 8 --max-staleness 2 --eval-mean 600 --eval-cv 0.6
    """
    import math

    from pace_async.errors import UsageError
    from pace_async.simulate.durations import Durations
    from pace_async.simulate.predict import Scenario, predict

    given = {
        "--eval-mean": eval_mean,
        "--eval-cv": eval_cv,
        "--eval-cap": eval_cap,
        "--generation": generation,
        "--learn": learn,
        "--pause": pause,
    }
    for name, value in given.items():
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UsageError(f"{name} must be a number of at least 0, not {value}.")
    if not eval_mean or eval_cap == 0:
        raise UsageError("--eval-mean and --eval-cap must be above 0: the prediction is relative to the evaluations.")
    durations = Durations(
        seed=seed,
        evaluation_mean=eval_mean,
        evaluation_cv=eval_cv,
        evaluation_cap=eval_cap,
        generation=0.05 * eval_mean if generation is None else generation,
        learning=0.03 * eval_mean if learn is None else learn,
        pause=0.003 * eval_mean if pause is None else pause,
    )
    found = predict(
        Scenario(
            threads=threads,
            group_size=group_size,
            bound=max_staleness,
            durations=durations,
            candidates=candidates,
            policy=policy,
            slots=slots,
            seed=seed,
        )
    )
    if as_json:
        print_json(found)
        return
    print_fields(_in_words(found, max_staleness))


def _in_words(found: dict[str, Any], bound: int) -> dict[str, object]:
    ages: dict[int, int] = {int(age): amount for age, amount in found["staleness"].items()}
    total = sum(ages.values())
    shares = ", ".join(f"{age}: {100 * amount / total:.0f} %" for age, amount in ages.items()) or "nothing trained"
    terms = ", ".join(f"{name} {value:,.1f}" for name, value in found["terms"].items())
    return {
        "speed-up over sync": f"{found['speedup']:.2f}",
        "slot utilisation": f"{100 * found['slot_utilisation']:.0f} % of the threads' time",
        "staleness": f"{shares} (updates; bound {bound})",
        "expired": f"{found['expired']} of {found['candidates']} finished rollouts",
        "candidates an hour": f"{found['candidates_per_hour']:,.1f}; sync {found['sync_candidates_per_hour']:,.1f}",
        "roofline": f"{found['roofline']:,.1f} an hour, bound by {found['binding']} ({terms})",
        "advice": found["advice"],
    }
