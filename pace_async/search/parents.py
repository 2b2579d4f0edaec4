"""Which program is changed next, and which programs an island keeps.

The default is PACEvolve's tournament: draw `size` of the `pool` best members, take the best of them. It is elitist:
only the best count. Equal scores go to the older candidate. By default most parents come from a tournament among the
best programs of all islands, so an island that is stuck goes on from another's best. An island that has gone back to an
older state of its own takes no such parent. `registry.parent_rules` lists the rules.

Where scores were measured several times, parents are compared by lower confidence bounds (`search.repeats`).

With several objectives, each lease ranks programs by the score under its own weights, with which it is rewarded too: a
rule sees these scores, and a parent from another island is one of the front of all islands. An island with too many
programs drops what NSGA-II would, the last by rank and crowding distance (`search.front`), never the best score.
"""

import random
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

from pace_async.aims import weights_of
from pace_async.config import SearchConfig
from pace_async.fitness import Fitness
from pace_async.registry.parent_rules import PARENT_RULES
from pace_async.search.front import by_front
from pace_async.search.repeats import NONE, Repeated, bounded
from pace_async.search.state import Island, Member


class Members(tuple[Member, ...]):
    """The members of an island, best first, and an index of them, which costs the same for any number of members.

    Invariant: an index belongs to one set of members. `with_member` hands it on to the set that it returns, and the
    older one makes a new index if it is asked again. So the index is only a matter of speed: equal members are equal.
    """

    _index: "MembersIndex | None" = None

    @classmethod
    def of(cls, members: Iterable[Member]) -> "Members":
        """These members, the same object if it is one already."""
        return members if isinstance(members, Members) else cls(members)

    @property
    def known(self) -> "MembersIndex":
        """Their ids and texts. Not to be changed."""
        if self._index is None:
            ids, texts = {member.candidate for member in self}, [member.program for member in self]
            self._index = MembersIndex(ids, set(texts), sum(map(len, texts)))
        return self._index

    def with_member(self, place: int, new: Member, limit: int) -> "Members":
        """With `new` at `place`, which is below `limit`, and at most `limit` members. No two texts are equal."""
        index, left = self.known, self[limit - 1 :]
        self._index = None
        for member in left:
            index.candidates.discard(member.candidate)
            index.programs.discard(member.program)
            index.characters -= len(member.program)
        index.candidates.add(new.candidate)
        index.programs.add(new.program)
        index.characters += len(new.program)
        after = Members((*self[:place], new, *self[place : limit - 1]))
        after._index = index
        return after


@dataclass(slots=True)
class MembersIndex:
    """The ids of members, their texts, and the length of all texts together."""

    candidates: set[int]
    programs: set[str]
    characters: int


class ParentRule(Protocol):
    """Type of the code of an entry in `registry.parent_rules`. Pure: the same arguments give the same parent."""

    def __call__(self, island: Island, search: SearchConfig, draw: random.Random, /) -> Member:
        """One of the island's members, which are the best first, at least one. `draw` is the only source of chance."""
        ...


def parent_of(
    island: Island,
    search: SearchConfig,
    draw: random.Random,
    fitness: Fitness | None = None,
    lease: int = 0,
    repeated: Repeated = NONE,
) -> Member:
    """The next parent among the island's members. `fitness` and `lease` decide how several objectives weigh, and
    `repeated` how sure a score is."""
    if fitness is None or not (repeated or island.members[0].costs):
        return _rule(search.parents)(island, search, draw)
    members = weighed(island.members, fitness, lease) if island.members[0].costs else island.members
    bounded_island = replace(island, members=bounded(members, repeated, fitness))
    chosen = _rule(search.parents)(bounded_island, search, draw).candidate
    return next(member for member in island.members if member.candidate == chosen)


def weighed(members: Sequence[Member], fitness: Fitness, lease: int) -> tuple[Member, ...]:
    """The members with their scores under the weights of a lease, the best first. Beyond the bounds, where scores are
    equal, the lower costs come first."""
    weights = weights_of(lease, len(fitness.aims))
    other = (replace(member, score=fitness.score_of(member.costs, weights)) for member in members)
    return tuple(sorted(other, key=lambda member: (-member.score, sum(member.costs), member.candidate)))


@cache
def _rule(name: str) -> ParentRule:
    return PARENT_RULES[name].load()


def tournament(island: Island, search: SearchConfig, draw: random.Random) -> Member:
    """The parent rule `tournament`."""
    return choose_parent(island.members, draw, size=search.tournament_size, pool=search.tournament_pool)


def top_k(island: Island, search: SearchConfig, draw: random.Random) -> Member:
    """The parent rule `top_k`."""
    return choose_among_best(island.members, draw, search.top_k)


def choose_parent(members: Sequence[Member], draw: random.Random, *, size: int, pool: int) -> Member:
    """The winner of one tournament. `members` are the best first, at least one."""
    best = members[:pool]
    places = [draw.randrange(len(best)) for _ in range(size)]
    return best[min(places)]


def choose_among_best(members: Sequence[Member], draw: random.Random, k: int) -> Member:
    """One of the best `k`, drawn uniformly. `members` are the best first, at least one."""
    return draw.choice(members[:k])


def choose_migrant(
    elites: Mapping[int, Member],
    island: Island,
    fitness: Fitness,
    draw: random.Random,
    *,
    probability: float,
    size: int,
    front: Sequence[Member] = (),
    pool: int = 1,
    lease: int = 0,
    repeated: Repeated = NONE,
) -> Member | None:
    """With `probability`, the winner of a tournament among the best programs of all islands: the best of `size`
    different ones. None if the winner is the island's own, and always while the island has gone back. `elites` has the
    best of each island that shows one. `front` is that of all islands in a task with several objectives: there
    the tournament is among the `pool` best of it under the weights of the lease, and its own members count as own."""
    if draw.random() >= probability or island.course.stay > 0:
        return None
    if front:
        chosen = choose_parent(weighed(front, fitness, lease), draw, size=size, pool=pool).candidate
        own = any(member.candidate == chosen for member in island.members)
        return None if own else next(member for member in front if member.candidate == chosen)
    bests = {**elites, island.number: island.members[0]}
    drawn = draw.sample(sorted(bests), min(size, len(bests)))
    rivals = [bests[number] for number in drawn]
    first = bounded(fitness.ranked(rivals), repeated, fitness)[0].candidate
    winner = next(member for member in rivals if member.candidate == first)
    return None if winner == bests[island.number] else winner


def fitter(fitness: Fitness, a: Member | None, b: Member) -> Member:
    """The better of two members. Equal scores go to the older candidate."""
    if a is None:
        return b
    if a.score == b.score:
        return a if a.candidate <= b.candidate else b
    return a if fitness.better(a.score, b.score) else b


def taken_in(
    members: tuple[Member, ...], new: Member, fitness: Fitness, limit: int, room: int | None = None
) -> tuple[Member, ...]:
    """At most `limit` of `members` and `new`, in order of rank (as `members` are). They are unchanged if `new` ranks
    too low or its program is there already. If their programs take more than `room` bytes, programs that do not fit
    beside the better ones are left out, never the best. Of programs with costs the last by rank and crowding goes,
    whatever its score, and never the best. Worked example, maximising, a limit of 2: scores 3 and 1 and a new 2 give 3
    and 2. A new 1 changes nothing, because it is younger."""

    def rank_of(member: Member) -> tuple[float, int]:
        return -fitness.merit(member.score), member.candidate

    rank = rank_of(new)
    if not new.costs and len(members) >= limit and rank > rank_of(members[limit - 1]):
        return members
    before = Members.of(members)
    if new.program in before.known.programs:
        return members
    best = before.with_member(bisect_left(before, rank, key=rank_of), new, limit + bool(new.costs))
    if len(best) > limit:
        last = next(member for _, member in reversed(by_front(best)) if member is not best[0])
        best = Members(member for member in best if member is not last)
    if room is None or 4 * best.known.characters <= room:
        return best  # as nearly always: no text takes more than four bytes a character
    left, fitting = room, list[Member]()
    for member in best:
        size = text_bytes(member.program)
        if size <= left or not fitting:
            fitting.append(member)
            left -= size
    return Members(fitting)


def text_bytes(text: str) -> int:
    """The bytes of memory that a text takes at most, without its header: one a character of ASCII, else four."""
    return len(text) if text.isascii() else 4 * len(text)
