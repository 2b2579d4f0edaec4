"""What it costs to make the context of a candidate late in a run, and its first question.

    python -m scripts.benchmarks.bench_context
    python -m scripts.benchmarks.bench_context --candidates 1000

Each candidate changes one line of eplb's program of 10,100 characters, proposes three ideas and tries one, on eight
islands; every seventh has no score. Counted is processor time in milliseconds, the median and the most of fifty
candidates that follow, each on a parent of its own. Tokens are characters divided by four.
"""

import argparse
import random
import time
from collections.abc import Callable
from statistics import median

from pace_async.config import Config, SearchConfig
from pace_async.context.value import context_of
from pace_async.search.state import rules_of
from pace_async.state.apply import apply
from pace_async.state.run_state import RunState, Terms
from pace_async.task import Task, load_task
from tests.support.contexts import evaluated, rollout
from tests.support.mid_run import metrics_around, prompts_for

ISLANDS = 8
COUNTED = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=10_000)
    candidates = parser.parse_args().candidates
    task = load_task("eplb")
    state, draw = begun(task), random.Random(0)
    for lease in range(1, candidates + 1):
        follow(state, task, lease, draw)
    contexts, questions = costs(state, task, candidates, draw)
    for name, milliseconds in (("context", contexts), ("context and question", questions)):
        print(f"{name}: {median(milliseconds):.2f} ms, at most {max(milliseconds):.2f}, after {candidates} candidates")


def costs(state: RunState, task: Task, candidates: int, draw: random.Random) -> tuple[list[float], list[float]]:
    """Milliseconds of the contexts of the next candidates, and of these with the first question."""
    contexts, questions = list[float](), list[float]()
    prompts, untried = prompts_for(task), SearchConfig().untried_kept
    for lease in range(candidates + 1, candidates + 1 + COUNTED):
        follow(state, task, lease, draw)
        island = state.islands[1 + lease % ISLANDS]
        parent = next(
            member for member in island.members if member.candidate == max(m.candidate for m in island.members)
        )
        contexts.append(
            took(lambda island=island, parent=parent: context_of(state, task.spec, island, parent, untried))
        )
        questions.append(
            took(lambda island=island, parent=parent: prompts.questions(state, island, parent).one(prompts.budget))
        )
    return contexts, questions


def begun(task: Task) -> RunState:
    """The state of a run that has scored the task's own program."""
    config = Config.model_validate({"advisor": {"model": "api:m"}})
    state = RunState(Terms(8, 2, rules_of(config.search, task.spec.fitness), trains=False))
    return apply(state, evaluated(0, 0, None, task.program, task.spec.bounds.lower))


def follow(state: RunState, task: Task, lease: int, draw: random.Random) -> None:
    """One more candidate on any program of its island."""
    number = 1 + lease % ISLANDS
    island = state.islands.get(number)
    parent = draw.choice(island.members).candidate if island is not None and island.members else 0
    score = None if lease % 7 == 0 else draw.gauss(0.6, 0.1)
    rollout(
        state,
        lease,
        number,
        parent,
        score,
        experiment=f"1. Set `rounds` to {lease}.\n2. Leave all else of candidate {parent} as it is.",
        text=f"(refine) The rounds limit the balance, and nobody has tried {lease} on candidate {parent}.",
        other=f"(explore) Deal the slots of layer {lease} by snake order before the greedy placement.",
        program=task.program.replace("rounds = 16", f"rounds = {lease}", 1),
        metrics=metrics_around(tuple(task.spec.shown_metrics), score or 0.0, lease),
    )


def took(work: Callable[[], object]) -> float:
    """Milliseconds of processor time."""
    began = time.process_time()
    work()
    return 1000 * (time.process_time() - began)


if __name__ == "__main__":
    main()
