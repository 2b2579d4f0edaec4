"""A model of everything around the gate: threads, replicas, one learner, pushes, crashes. No event loop, no database.

Any possible event may come next. `FAIR` events happen without a fault when every stage ends. The others are faults. The
simpler rules at the end are tempting simplifications of the gate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from pace_async.staleness.gate import Lease, choose_group, deadline_of
from pace_async.staleness.policies import Choice, CompleteRollout, admits, choose

FAIR = frozenset({"admit", "advise", "complete", "expire", "ship", "train", "push"})
FAULTS = frozenset({"abort", "skip", "return", "push fails", "threads", "crash"})

SELDOM = {"push": 2, "push fails": 1, "skip": 1, "return": 1, "complete": 4}


@dataclass
class Model:
    """`oldest` has the oldest version among a lease's tokens once it is advised. `complete` is in the order of
    completion. A replica whose push failed gets no requests until the next push. A shipped group may return whole, with
    its leases complete as before."""

    size: int
    threads: int
    bound: int
    policy: str = "pace"
    replicas: int = 1
    retries: bool = True
    admission: "Callable[[Model], bool] | None" = None
    shipment: "Callable[[Model], Choice] | None" = None
    learner: int = 0
    served: int = 0
    admitted: int = 0
    running: dict[int, Lease] = field(default_factory=dict[int, Lease])
    oldest: dict[int, int] = field(default_factory=dict[int, int])
    complete: dict[int, Lease] = field(default_factory=dict[int, Lease])
    training: dict[int, Lease] = field(default_factory=dict[int, Lease])
    closed: dict[str, set[int]] = field(
        default_factory=lambda: {"trained": set(), "skipped": set(), "aborted": set(), "expired": set()}
    )
    versions: list[int] = field(default_factory=list[int])
    lagging: set[int] = field(default_factory=set[int])
    gave_up: set[int] = field(default_factory=set[int])
    worst: int = 0
    events: int = 0

    def __post_init__(self) -> None:
        self.versions = [0] * self.replicas

    @property
    def open(self) -> int:
        return len(self.running) + len(self.complete) + len(self.training)

    def may_admit(self) -> bool:
        if len(self.running) >= self.threads:
            return False
        if self.admission is not None:
            return self.admission(self)
        return admits(
            self.policy,
            running=len(self.running),
            held=len(self.complete) + len(self.training),
            lag=self.learner - self.served,
            bound=self.bound,
            size=self.size,
        )

    def choice(self) -> Choice:
        if self.training:
            return Choice()
        if self.shipment is not None:
            return self.shipment(self)
        finished = [CompleteRollout(lease, self.oldest[number]) for number, lease in self.complete.items()]
        running = list(self.running.values())
        return choose(self.policy, finished, running, learner=self.learner, bound=self.bound, size=self.size)

    def moves(self) -> list[str]:
        """Every event that may come next."""
        moves = ["threads", "crash"]
        if self.may_admit():
            moves += ["admit"] * 3
        if self.unadvised() and len(self.lagging) < self.replicas:
            moves += ["advise"] * 3
        if any(lease in self.oldest for lease in self.running):
            moves += ["complete"] * 3
        if self.running:
            moves.append("abort")
        choice = self.choice()
        if choice.expired:
            moves += ["expire"] * 2
        elif choice.group:
            moves += ["ship"] * 2
        if self.training:
            moves += ["train", "train", "skip", "return"]
        if self.behind():
            moves += ["push", "push", "push fails"]
        return moves

    def unadvised(self) -> list[int]:
        return [lease for lease in self.running if lease not in self.oldest]

    def behind(self) -> list[int]:
        """Replicas that a push would bring forward now."""
        return [r for r in range(self.replicas) if self.versions[r] < self.learner and r not in self.gave_up]

    def play(self, move: str, draw: Random) -> None:
        self.events += 1
        match move:
            case "admit":
                self.admitted += 1
                self.running[self.admitted] = Lease(deadline_of(self.served, self.bound), self.admitted)
            case "advise":
                able = [r for r in range(self.replicas) if r not in self.lagging]
                self.oldest[draw.choice(self.unadvised())] = self.versions[draw.choice(able)]
            case "complete":
                number = draw.choice([lease for lease in self.running if lease in self.oldest])
                self.complete[number] = self.running.pop(number)
            case "abort":
                self._close("aborted", [draw.choice(list(self.running))], self.running)
            case "expire":
                self._close("expired", self.choice().expired, self.complete)
            case "ship":
                self.training = {lease: self.complete.pop(lease) for lease in self.choice().group}
            case "train":
                ages = [self.learner - self.oldest[lease] for lease in self.training]
                self.worst = max(self.worst, *ages)
                self._close("trained", list(self.training), self.training)
                self.learner += 1
                self.gave_up.clear()
            case "skip":
                self._close("skipped", list(self.training), self.training)
            case "return":
                self.complete.update(self.training)
                self.training.clear()
            case "push":
                replica = draw.choice(self.behind())
                self.versions[replica] = self.learner
                self.lagging.discard(replica)
                self._serve()
            case "push fails":
                replica = draw.choice(self.behind())
                self.lagging.add(replica)
                if not self.retries:
                    self.gave_up.add(replica)
                self._serve()
            case "threads":
                self.threads = draw.randint(1, 12)
            case "crash":
                self._crash(draw)
            case _:
                raise AssertionError(move)

    def _serve(self) -> None:
        able = [version for replica, version in enumerate(self.versions) if replica not in self.lagging]
        if able:
            self.served = max(self.served, min(able))

    def _close(self, how: str, leases: Sequence[int], place: dict[int, Lease]) -> None:
        for lease in leases:
            assert not any(lease in closed for closed in self.closed.values()), f"lease {lease} closed twice"
            self.closed[how].add(lease)
            place.pop(lease)
            self.oldest.pop(lease, None)

    def _crash(self, draw: Random) -> None:
        """The runtime goes on from its rows: leases with their deadlines, tokens of those that were advised, the order
        of completion, the group in training. What had no row yet is lost: tokens of some that run, which are asked
        again. An engine that died too comes back with the newest weights."""
        self.running = {lease: self.running[lease] for lease in sorted(self.running)}
        for lease in self.running:
            if draw.random() < 0.25:
                self.oldest.pop(lease, None)
        if draw.random() < 0.5:
            self.versions = [self.learner] * self.replicas
            self.lagging.clear()
            self._serve()

    def check(self) -> None:
        """Conservation, the bound, and that something can happen by itself."""
        assert self.admitted == sum(len(leases) for leases in self.closed.values()) + self.open
        if self.policy != "soft":
            assert self.worst <= self.bound, f"a rollout {self.worst} versions old was trained, bound {self.bound}"
        if self.policy != "drop":
            assert not self.closed["expired"]

    def stuck(self, moves: Sequence[str]) -> bool:
        """Whether nothing happens by itself any more."""
        return not FAIR.intersection(moves)


def verdict(model: Model, seed: int, events: int = 2000) -> str:
    """How a random play ends: "deadlock", "stale" or "sound". Faults and pushes come seldom, stragglers are slow."""
    draw = Random(seed)
    for _ in range(events):
        moves = sorted(set(model.moves()) - {"threads", "abort", "crash"})
        if model.stuck(moves):
            return "deadlock"
        weights = [SELDOM.get(move, 10) for move in moves]
        model.play(draw.choices(moves, weights)[0], draw)
        if model.worst > model.bound:
            return "stale"
    return "sound"


def cumulative_admission(model: Model) -> bool:
    """Counts what was ever admitted instead of what is open."""
    return model.admitted < (model.bound + 1 + model.served) * model.size


def oldest_survives(model: Model) -> Choice:
    """Ships if the oldest that remains could still be trained by the next update: looks at one, not at how many."""
    if len(model.complete) < model.size:
        return Choice()
    group = sorted(model.complete.values())[: model.size]
    rest = [*model.running.values(), *(lease for lease in model.complete.values() if lease not in group)]
    if rest and min(lease.deadline for lease in rest) < model.learner + 1:
        return Choice()
    return Choice(tuple(sorted(lease.lease for lease in group)))


def against_the_published(model: Model) -> Choice:
    """Tests the shipment against the version that is served instead of the learner's."""
    complete = list(model.complete.values())
    group = choose_group(complete, [*model.running.values(), *complete], model.served, model.size)
    return Choice(tuple(lease.lease for lease in group or ()))
