"""Whether an island still improves: its momentum, and how far it has come.

With s₀ the score of the task's own program, r the goal (the better of the task's bounds) and b the island's best score:

    gain R = (b − s) / (b − r) for a rollout whose score s is a new best, else 0      (the share of what was left)
    momentum m ← 0.85·m + 0.15·R, from 0                                              (`search.momentum_decay`)
    progress A = (s₀ − b) / (s₀ − r), within [0, 1]

Numerator and denominator change sign together, so the same formulas hold whether a higher or a lower score is better;
only what counts as a new best depends on the direction. Worked example, maximising from 2.0 towards 3.0: a rollout of
2.5 gains (2.0 − 2.5) / (2.0 − 3.0) = 0.5, so m = 0.15 · 0.5 = 0.075 and A = 0.5; one of 2.4 is no new best, so
m = 0.85 · 0.075 = 0.06375; one of 2.75 gains half of what is left, R = 0.5, so m = 0.85 · 0.06375 + 0.075 = 0.1291875
and A = 0.75. Minimising from 3.0 towards 2.0, the scores 2.5, 2.6 and 2.25 give the same numbers.
"""

from pace_async.task import better


def goal_of(direction: str, lower: float, upper: float) -> float:
    """r: the better of a task's bounds, the score from which a reward is full."""
    return upper if direction == "maximize" else lower


def gain(old: float, new: float, goal: float, direction: str) -> float:
    """R in [0, 1]: the share of the way from `old` to `goal` that `new` went; 0 unless `new` is better. A step to the
    goal or beyond it is the whole way, and so is any step from there."""
    if not better(direction, new, old):
        return 0.0
    return min(1.0, (old - new) / (old - goal)) if better(direction, goal, old) else 1.0


def moved(momentum: float, gained: float, decay: float) -> float:
    """m after one more rollout, whatever came of it."""
    return decay * momentum + (1.0 - decay) * gained


def progress(start: float, best: float, goal: float, direction: str) -> float:
    """A in [0, 1]: the share of the way from `start` to `goal` at which `best` stands; 1 where `start` left nothing to
    gain."""
    if not better(direction, goal, start):
        return 1.0
    return min(1.0, max(0.0, (start - best) / (start - goal)))
