"""A run as the committed rows have it: the value from which the runtime goes on after a crash, and nothing else.

Invariant: the same rows give the same record; the islands are rebuilt by the very functions of `search` that made them
(the rows hold what happened, not what a pool looked like). Not a cache: it is read once, when a run starts or resumes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pace_async.events import (
    Advised,
    CascadeStageEnded,
    Claimed,
    Closing,
    Evaluated,
    GroupShipped,
    ImplementerChosen,
    ImplementerReserved,
    ImplementerTry,
    RunHeader,
)
from pace_async.objectives import NO_SPREADS, Spreads
from pace_async.search.bandit import Result
from pace_async.search.state import Idea, Island, Member, Shown
from pace_async.staleness.rollback import NO_GROUPS, Health


@dataclass(frozen=True, slots=True)
class OpenLease:
    """A lease that has not closed. `migrant` is the parent from another island, if any; `advice` is there from stage
    advised on, `evaluated` from stage complete on, `claim` while its program is tried on fresh instances; a shipped one
    is also in its group. `oldest_version` is None while admitted; `ideas` is the pool of its island when it was
    complete; `tries` what models answered, `chosen` the implementer that a bandit chose, `paid` USD by model, `result`
    what came of the choice; `stages` are the cheap stages that ended."""

    lease: int
    island: int
    stage: str
    deadline: int
    admitted_version: int
    oldest_version: int | None
    opened_at: float
    group: int | None
    migrant: Member | None
    advice: Advised | None
    evaluated: Evaluated | None
    claim: Claimed | None = None
    ideas: tuple[Idea, ...] = ()
    tries: tuple[ImplementerTry, ...] = ()
    chosen: ImplementerChosen | None = None
    paid: Mapping[str, float] = field(default_factory=dict[str, float])
    result: Result | None = None
    stages: tuple[CascadeStageEnded, ...] = ()


@dataclass(frozen=True, slots=True)
class LastLease:
    """The newest lease of an island, open or closed."""

    lease: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a run is, in figures, at a cost that hardly grows with it. `state` is the last one committed, or
    "created" before the first; `best` the best program so far, the task's own included; `groups` counts ended ones,
    skipped ones too; `candidates` the rollouts evaluated, the task's own program not counted; `reserved` are the calls
    whose end is not known, `changes` the settings that resumes changed, at their latest."""

    run_id: int
    header: RunHeader
    state: str
    reason: str
    best: Member | None
    groups: int
    candidates: int
    spend_usd: float
    reserved: tuple[ImplementerReserved, ...] = ()
    changes: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def finished(self) -> bool:
        """Whether the run ended as it should and there is nothing to resume but more of it."""
        return self.state == "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(Standing):
    """Where a run stands, with all that a runtime goes on from. `version` is the learner's, `weights` its directory
    (None for version 0: the advisor as given), `published` the last version published; `shipped` are groups given to
    the learner whose end is not known; `elites` the best program of each island among the rollouts that are complete
    (with a bound of 0: trained or skipped), islands without one left out, `pools` their ideas as of the newest that is
    trained or skipped. `closings` has every way to close; `last_leases` goes by island; `reservations` is the number of
    calls ever reserved; `spreads` and `health` those of the groups shipped so far; `secret` is what fresh instances
    follow from, `own_scores` the scores of the task's own program on those, by the number of the seed; `results` what
    came of choosing an implementer, by lease, of the rollouts that are trained or skipped."""

    leases: tuple[OpenLease, ...]
    islands: Mapping[int, Island]
    seed_program: Member | None
    elites: Mapping[int, Member]
    pools: Mapping[int, Shown]
    version: int
    weights: str | None
    published: int
    shipped: tuple[GroupShipped, ...]
    next_group: int
    next_lease: int
    admitted: int
    closings: Mapping[Closing, int]
    last_leases: Mapping[int, LastLease]
    reservations: int = 0
    spreads: Spreads = NO_SPREADS
    health: Health = NO_GROUPS
    secret: str = field(default="", repr=False)
    own_scores: Mapping[int, float | None] = field(default_factory=dict[int, float | None])
    results: Mapping[int, Result] = field(default_factory=dict[int, Result])
