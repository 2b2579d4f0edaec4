"""Make a task of a function and search for better programs: python examples/a_task_in_code.py. It needs no key."""

import math

import pace_async as pace

SEED = '''
import math

# EVOLVE-BLOCK-START
step = 1.0
rounds = 10


def lowest(instance):
    """A point at which the instance's wave is low."""
    at = instance["start"]
    for _ in range(rounds):
        at = min((at - step, at, at + step), key=lambda x: math.sin(x) + x * x / 50)
    return at
# EVOLVE-BLOCK-END
'''
CATALOGUE = {
    "mechanisms": [
        {"name": "step", "about": "how far one step goes", "options": [0.1, 0.3, 1.0, 2.0]},
        {"name": "rounds", "about": "steps taken", "options": [10, 30, 100]},
    ]
}


def height(x: float) -> float:
    return math.sin(x) + x * x / 50


def depth(instances: list[dict[str, float]], outputs: list[object]) -> float:
    """Find a low point of sin(x) + x²/50, from several starts."""
    found = [x for x in outputs if isinstance(x, float)]
    if len(found) < len(instances):
        raise ValueError("a point must be a number with a fraction")
    return -sum(height(x) for x in found) / len(found)


def main() -> None:
    task = pace.Task(
        name="low_point",
        seed=SEED,
        score=depth,
        bounds=(0.0, 1.0),
        instances=[{"start": -9.0}, {"start": 4.0}],
        catalogue=CATALOGUE,
    )
    print(f"the seed program scores {pace.evaluate_program(task, SEED)['score']:.6g}")
    run = pace.run(task, {"stop.candidates": 4, "search.threads": 2, "learner.objective": "none"})
    print(f"the best program scores {run.best['score']:.6g}, in {run.name}")


if __name__ == "__main__":
    main()
