"""Practice: a program is tried on instances that are never scored, before it gets any that are.

It runs cold, in a sandbox of its own, so nothing of it is there when the scored instances come. Only here is read what
a program printed. What it prints in a scored evaluation, where it holds hidden instances, is not kept for anybody.

Invariants: no practice instance is a scored one. A sandbox in which a program could leave a file for a later program is
not used for practice, because the later program could print what an earlier one saw.
"""

from pace_async.config import EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.evaluate.sandbox.verdict import JobResult
from pace_async.evaluate.scorer.scorer_client import Scorers
from pace_async.outside import readable
from pace_async.task import FULL, PRACTICE, Task

MOST_PRINTED = 2_000
"""Characters that are kept of what a program printed."""
CONFINES = ("files", "writes")
"""What a sandbox must stop for practice: without it a program leaves files for a later one."""


def printed(ended: JobResult) -> str:
    """The end of what a program printed, in at most MOST_PRINTED characters. Each stream that has something begins with
    a line of ours."""
    texts = {
        name: readable(data.decode("utf-8", "replace")).strip()
        for name, data in (("standard output", ended.stdout), ("standard error", ended.stderr))
    }
    streams = {f"[{name}]\n": text for name, text in texts.items() if text}
    room = MOST_PRINTED // max(1, len(streams)) - 1
    return "\n".join(head + text[-(room - len(head)) :] for head, text in streams.items())


def refuse_unless_confined(task: Task, evaluation: EvaluationConfig, tier: Tier) -> None:
    """Raises UsageError if this configuration asks for practice and the task or the sandbox allows none."""
    if evaluation.practice == "none":
        return
    reason = f"evaluation.practice is {evaluation.practice}"
    if not task.spec.of_kind.hides_scorer:
        raise UsageError(
            f"{reason}, and task {task.name!r} is a command task, whose evaluator shares the program's sandbox and can "
            "show its own text (feedback: true in task.yaml): leave evaluation.practice at none."
        )
    if open_ways := [name for name in CONFINES if name not in tier.claims]:
        raise UsageError(
            f"{reason}, and in the sandbox {tier.name} a program can leave files for a later one, which could print "
            f"hidden instances ({', '.join(open_ways)} not stopped here): `pace doctor` says how to get a stronger "
            "sandbox, or leave evaluation.practice at none."
        )


async def refuse_unless_apart(task: Task, evaluation: EvaluationConfig, scorers: Scorers) -> None:
    """Raises UsageError if this configuration asks for practice, and the task has none, or a practice instance is one
    of those that score every program."""
    if evaluation.practice == "none":
        return
    if not scorers.practises:
        raise UsageError(
            f"evaluation.practice is {evaluation.practice}, and {task.folder / task.spec.evaluator} defines no "
            "practice(seed), which makes instances that are never scored (docs/tasks.md): leave it at none, or define "
            "the function."
        )
    if wrong := await not_apart(task, scorers, evaluation.seed):
        raise UsageError(
            f"Task {task.name!r}: {wrong}; leave evaluation.practice at none, or mend practice in "
            f"{task.spec.evaluator}."
        )


async def not_apart(task: Task, scorers: Scorers, seed: int, *others: int) -> str:
    """Why the practice instances of a seed cannot be used beside the scored ones of it and of other seeds, or nothing.
    Raises UsageError if they cannot be made."""
    practice = await scorers.instances(seed, PRACTICE)
    if not practice:
        return "practice gives no instances"
    for of_seed in (seed, *others):
        for stage in (*(entry.name for entry in task.spec.cascade), FULL):
            scored = set(await scorers.instances(of_seed, stage))
            place = next((number for number, instance in enumerate(practice, start=1) if instance in scored), None)
            if place is not None:
                return f"practice instance {place} is a scored one too, so what is printed there would show hidden ones"
    return ""
