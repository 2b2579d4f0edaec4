"""How the state of a run changes when its programs were scored again by a corrected evaluator.

The islands keep their ideas, numbers and momentum. All that depends on scores is made again from the new ones:
members, the best program, the programs of snapshots, what other islands see, and the rewards of rollouts that wait for
a group. Counts of visits begin again. Pure except for the state that it is given.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pace_async.errors import PaceBug
from pace_async.search.front import front_of
from pace_async.search.ideas import Pool
from pace_async.search.islands import snapshot_of
from pace_async.search.parents import fitter, taken_in
from pace_async.search.state import Idea, Island, Member, Rules, Snapshot, Trial, VisiblePool
from pace_async.state.memory import NewScore
from pace_async.state.notes import voided
from pace_async.state.run_state import Rollout, RunState


@dataclass(frozen=True, slots=True)
class Rescoring:
    """The new scores by candidate, and the programs that have one, by island and in the order of their numbers. Island
    0 has the task's own."""

    scores: Mapping[int, NewScore]
    members: Mapping[int, tuple[Member, ...]]

    @classmethod
    def of(cls, scores: Mapping[int, NewScore], programs: Iterable[tuple[int, Member]]) -> "Rescoring":
        """From (island, program) in the order of their numbers. `scores` may be filled while they are read."""
        members: defaultdict[int, list[Member]] = defaultdict(list)
        for island, member in programs:
            members[island].append(member)
        return cls(scores, {island: tuple(listed) for island, listed in members.items()})

    def of_member(self, member: Member) -> Member | None:
        """The program with its new score, None if it has none."""
        new = self.scores.get(member.candidate)
        return None if new is None or new.score is None else replace(member, score=new.score, costs=new.costs)

    def of_pool(self, pool: Pool) -> Pool:
        """The ideas with the new results of their experiments. Those that are only counted keep their count."""
        return tuple(self._idea(idea) for idea in pool)

    def _idea(self, idea: Idea) -> Idea:
        earlier = replace(idea.earlier, lowest=None, highest=None)
        return replace(idea, trials=tuple(self._trial(trial) for trial in idea.trials), earlier=earlier)

    def _trial(self, trial: Trial) -> Trial:
        new = self.scores.get(trial.candidate)
        if new is not None:
            return replace(trial, outcome=new.outcome, score=new.score)
        return trial if trial.score is None else replace(trial, outcome="below_threshold", score=None)


def rescored(state: RunState, new: Rescoring) -> RunState:
    """The state under the new scores: the same object, changed. Raises PaceBug without one for the task's program."""
    seed = state.seed_program and new.of_member(state.seed_program)
    if seed is None:
        raise PaceBug("an evaluator that gives the seed program no score cannot come into force")
    banned = state.steering.banned()
    members = {
        number: tuple(program for program in listed if program.candidate not in banned)
        for number, listed in new.members.items()
    }
    new = replace(new, members=members)
    rules, state.seed_program, state.best = state.terms.rules, seed, seed
    for number, island in state.islands.items():
        state.islands[number] = _island(island, seed, new, rules)
        state.best = fitter(rules.fitness, state.best, state.islands[number].members[0])
    scored = {member.candidate: member for listed in new.members.values() for member in listed}
    state.complete = {lease: _rollout(rollout, new, scored.get(lease)) for lease, rollout in state.complete.items()}
    visible = state.visible
    visible.elites = {number: state.islands[number].members[0] for number in visible.elites}
    shown = (member for number in visible.elites for member in state.islands[number].members)
    visible.front = front_of(list(shown)) if seed.costs else ()
    visible.pools = {
        number: VisiblePool(shown.lease, new.of_pool(shown.ideas)) for number, shown in visible.pools.items()
    }
    if state.memory.active:
        state.memory.rescored(new.scores)
    state.notes, state.confirmed, state.repeated, state.measured = voided(state.notes), {}, {}, {}
    return state


def _island(island: Island, seed: Member, new: Rescoring, rules: Rules) -> Island:
    members: tuple[Member, ...] = (seed,)
    for member in new.members.get(island.number, ()):
        members = taken_in(members, member, rules.fitness, rules.members_kept, rules.room)
    ideas, course = new.of_pool(island.ideas), island.course
    history = [snapshot_of(seed, ())]
    history += [again for snapshot in course.history[1:] if (again := _snapshot(snapshot, new)) is not None]
    course = replace(course, history=tuple(history), aside=new.of_pool(course.aside))
    return replace(island, members=members, ideas=ideas, visits={}, course=course)


def _snapshot(snapshot: Snapshot, new: Rescoring) -> Snapshot | None:
    best = new.of_member(snapshot.best)
    return None if best is None else snapshot_of(best, new.of_pool(snapshot.ideas))


def _rollout(rollout: Rollout, new: Rescoring, member: Member | None) -> Rollout:
    """A rollout that waits for a group gets the reward of its new score. `member` is its program with that score, if
    any."""
    new_score = new.scores.get(rollout.lease.lease)
    if new_score is None:
        return replace(rollout, member=member)
    return replace(rollout, member=member, reward=new_score.reward, ideas=new.of_pool(rollout.ideas))
