"""The present state of an island, as typed dictionaries."""

from typing_extensions import TypedDict


class LastAction(TypedDict):
    """An island that had stopped improving went back (`snapshot`) or crossed over with another (`partner`)."""

    action: str
    lease: int
    candidate: int
    snapshot: int | None
    partner: int | None
    ideas_taken: int
    momentum: float
    rollouts: int
    progress: float
    rival: float | None
    probability: float
    why: str
    at: float


class IslandNow(TypedDict):
    """`best_score` and `best_candidate` are of the program from which the island continues, which after a backtrack is
    not its best ever. `progress` in [0, 1] is that score's. `rollouts` have ended, `since_action` of them since the
    last action. `staying` rollouts are left until the ideas set aside return."""

    island: int
    rollouts: int
    best_score: float
    best_candidate: int
    progress: float
    momentum: float
    members: int
    snapshots: int
    ideas: int
    ideas_aside: int
    staying: int
    since_action: int
    last_action: LastAction | None
