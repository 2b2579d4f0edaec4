"""How long the synchronous loop takes over the same work: arithmetic, no runtime.

Each group waits for the slowest of its B rollouts, then for the learner and for the push. Invariant: equal, to
rounding, to what the runtime itself takes for the same scenario with `--sync`; a test holds it to that.
"""

import heapq

from pace_async.simulate.durations import Durations


def synchronous_seconds(durations: Durations, *, candidates: int, group_size: int, slots: int | None) -> float:
    """Virtual seconds from the start to the last of `candidates` scores. Evaluations beyond `slots` wait in line."""
    begun = ended = 0.0
    for first in range(1, candidates + 1, group_size):
        group = range(first, min(first + group_size, candidates + 1))
        free = [begun] * (slots or group_size)
        ready = begun + durations.generation
        ended = begun
        for lease in group:
            finished = max(heapq.heappop(free), ready) + durations.evaluation(lease)
            heapq.heappush(free, finished)
            ended = max(ended, finished)
        begun = ended + durations.learning + durations.pause
    return ended
