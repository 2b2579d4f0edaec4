"""The output of `pace run --dry-run`: the plan, its cost first. With --verbose it is comments above the resolved
configuration, which `--config` can read.

Invariant: nothing is written or called, and nothing started but the count of a training step of a large advisor, and
the evaluator of a task whose settings are given, which is asked for its data. A dry run refuses what a run refuses
before its start, except a failing seed program, which is not run, and what this machine lacks, which it names.
"""

from collections.abc import Mapping
from pathlib import Path

from typing_extensions import TypedDict

from pace_async.config import Config, StopConfig
from pace_async.configure import dump
from pace_async.errors import UsageError
from pace_async.state.stop_rules import STOP_RULES


class Planned(TypedDict):
    """What a run would do, in words by its parts, and its whole configuration. `missing` is what this machine lacks
    before the run can begin, a sentence for each."""

    plan: dict[str, str]
    missing: list[str]
    config: Config


def dry_run_of_series(config: Config, run_dir: Path | None, number: int) -> Planned:
    """The same for a series of runs: the bill is that of the runs that are missing. Raises UsageError."""
    from pace_async.interface import series_of_runs

    series = series_of_runs.planned(config, number, run_dir)
    left = series.unfinished()
    begun = [seed for seed in left if series.paths(seed).exists]
    first = next((seed for seed in left if seed not in begun), None)
    if first is None:
        raise UsageError(f"Every run of {series.folder} has begun: `pace resume {series.folder}` goes on with them.")
    planned = dry_run(series.config_of(first), series.paths(first).folder, runs=len(left))
    lines = planned["plan"]
    seeds = f"seed{'s' if len(left) > 1 else ''} {', '.join(map(str, left))}"
    runs = [f"{len(left)} of {number} runs, one after the other, {seeds}", series.budget_in_words]
    lines["writes"] = f"{series.folder}/ with a folder for each run, the next {lines['writes']}"
    planned["plan"] = {"bill": lines.pop("bill"), "series": ". ".join(filter(None, runs)), **lines}
    return planned


def dry_run(config: Config, run_dir: Path | None, runs: int = 1) -> Planned:
    """The configuration with the advisor that it names or that is chosen, and the plan, one line for each part. The
    bill is that of `runs` runs. Raises UsageError."""
    from pace_async.implement.agent_checks import missing_logins
    from pace_async.runtime.start.asked import bill_of, hours_of
    from pace_async.runtime.start.resolved import resolve_run
    from pace_async.task import load_task

    run = resolve_run(config, load_task(config.task), run_dir, dry=True)
    config, task, slots = run.config, run.task, run.slots
    where = f" ({run.evaluator.name})" if run.evaluator.elsewhere else ""
    evaluations = f"{slots} evaluation{'s' if slots > 1 else ''} at once{where}"
    staleness = "behind a barrier (sync)" if config.bound == 0 else f"at most {config.bound} updates behind"
    hours = hours_of(config, task, run.memory, slots)
    lines = {
        "bill": bill_of(config, task, runs),
        **({"hours": hours + (", for each of them" if runs > 1 else "")} if hours else {}),
        "task": f"{task.name}, from {task.folder}",
        "writes": f"{run.paths.folder}/ (population, configuration, weights, groups, logs)",
        "search": f"{config.search.threads} threads, {evaluations}, "
        f"each at most {task.spec.timeout_s:g} s and {task.spec.memory_mb} MiB",
        **({"resources": text} if (text := run.granted.in_words()) else {}),
        "cards": _cards(run.cards, run.elsewhere),
        "advisor": run.advisor,
        "implementer": config.implementer.model,
        **({"login": text} if (text := "; ".join(missing_logins(config.implementer))) else {}),
        "learning": f"objective {config.learner.objective}, groups of {config.learner.group_size}, {staleness}"
        + (f", by {run.trainer.about}" if run.trainer.elsewhere else "")
        if run.trainer is not None
        else "none",
        "stops": _stops(config.stop),
        "sandbox": "none: candidates run with your user's rights"
        if config.evaluation.unsafe_no_sandbox
        else "the strongest that passes its self-check at the start; see `pace doctor`",
        "first": f"{_first(config.search.start_from)} is scored; if that fails, nothing is written (exit code 5)"
        + _then(len(run.programs)),
        **({"begins": f"with {run.learned.in_words}"} if run.learned is not None else {}),
    }
    return {"plan": lines, "missing": list(run.missing), "config": config}


def lines_of(planned: Planned) -> dict[str, str]:
    """The lines for a terminal: the plan, and what is missing, if anything is."""
    missing = {f"missing {number}": line for number, line in enumerate(planned["missing"], 1)}
    return {**planned["plan"], **missing}


def dry_run_text(planned: Planned) -> str:
    """The plan as comments over the configuration."""
    lines = lines_of(planned)
    width = max(len(name) for name in lines)
    head = "".join(f"# {name:<{width}}  {line}\n" for name, line in lines.items())
    return f"# A dry run: nothing was written, started or called.\n{head}{dump(planned['config'])}"


def _first(start_from: str | None) -> str:
    from pace_async.runtime.start.beginning import named_run

    return "the seed program" if start_from is None else f"the best program of {named_run(start_from)[0]}"


def _then(others: int) -> str:
    return f"; then {others} more program{'s are' if others > 1 else ' is'} evaluated" if others else ""


def _cards(owners: Mapping[str, str], elsewhere: str) -> str:
    """The cards found, and who owns which, or which are needed `elsewhere`. They have their names in
    CUDA_VISIBLE_DEVICES."""
    from pace_async.gpus import find_cards, in_words

    owned = [f"card {name} goes to {owner}" for name, owner in owners.items()]
    needed = [f"the run needs {elsewhere}"] if elsewhere else []
    return "; ".join((in_words(find_cards()), *owned, *needed))


def _stops(stop: StopConfig) -> str:
    limits = {STOP_RULES[name]: getattr(stop, name) for name in StopConfig.model_fields if name in STOP_RULES}
    conditions = [rule.planned.format(limit) for rule, limit in limits.items() if rule.planned and limit is not None]
    return f"at {', or '.join(conditions)}" if conditions else "when interrupted"
