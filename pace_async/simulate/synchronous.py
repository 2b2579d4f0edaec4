"""The duration of the synchronous loop on the same work: arithmetic, no runtime.

Each group waits for the slowest of its B rollouts, then for the learner and for the push. Invariant: equal, to
rounding, to the runtime's own time for the same scenario with `--sync`, as a test shows. Valid only if every thread
has an evaluation slot. Otherwise the order of the queue matters, and the runtime is simulated.
"""

from pace_async.simulate.durations import Durations


def synchronous_seconds(durations: Durations, *, candidates: int, group_size: int) -> float:
    """Virtual seconds from the start to the last of `candidates` scores."""
    begun = ended = 0.0
    alike = durations.generation + durations.implementing
    for first in range(1, candidates + 1, group_size):
        group = range(first, min(first + group_size, candidates + 1))
        ended = begun + alike + max(durations.evaluation(lease) for lease in group)
        begun = ended + durations.learning + durations.pause
    return ended
