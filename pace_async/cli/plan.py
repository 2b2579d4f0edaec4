"""What `pace run --dry-run` prints: the plan as comments over the resolved configuration, which `--config` reads back.

Invariant: nothing is written, started or called; what a run would refuse before it starts is refused here too, except a
seed program that fails, because it would have to be run.
"""

from collections.abc import Mapping
from pathlib import Path

from pace_async.config import Config, Stop
from pace_async.configure import dump


def plan(config: Config, run_dir: Path | None) -> dict[str, str]:
    """What would run, a line for each part. Raises UsageError."""
    from pace_async.task import load_task

    asked = load_task(config.task)
    from pace_async.runtime.launch import prepare

    task, places = prepare(config, asked, run_dir)
    staleness = "behind a barrier (sync)" if config.bound == 0 else f"at most {config.bound} updates behind"
    learns = config.learner.objective != "none"
    return {
        "task": f"{task.name}, from {task.folder}",
        "writes": f"{places.folder}/ (population, configuration, weights, groups, logs)",
        "search": f"{config.search.threads} threads, {config.evaluation.slots} evaluations at once, "
        f"each at most {task.spec.timeout_s:g} s and {task.spec.memory_mb} MiB",
        "advisor": f"{config.advisor.model}, served by {config.advisor.engine}",
        "implementer": config.implementer.model,
        "learning": f"objective {config.learner.objective}, groups of {config.learner.group_size}, {staleness}"
        if learns
        else "none",
        "stops": _stops(config.stop),
        "sandbox": "none: candidates would run as you do"
        if config.evaluation.unsafe_no_sandbox
        else "the strongest that proves itself at the start; see `pace doctor`",
        "first": "the seed program is scored; if that fails, nothing is written (exit code 5)",
    }


def plan_text(config: Config, lines: Mapping[str, str]) -> str:
    """The plan as comments over the configuration."""
    width = max(len(name) for name in lines)
    head = "".join(f"# {name:<{width}}  {said}\n" for name, said in lines.items())
    return f"# A dry run: nothing was written, started or called.\n{head}{dump(config)}"


def _stops(stop: Stop) -> str:
    rules = (
        ("{} candidates", stop.candidates),
        ("{} groups", stop.updates),
        ("{:g} minutes", stop.minutes),
        ("{:g} USD", stop.budget),
        ("a score at least as good as {:g}", stop.target),
    )
    given = [words.format(value) for words, value in rules if value is not None]
    return f"at {', or '.join(given)}" if given else "when interrupted"
