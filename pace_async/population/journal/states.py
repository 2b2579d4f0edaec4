"""The state of a run's search as bytes, and back. Pure.

A program stands in its candidate's row, and the long texts and tokens of an open lease where those of its facts stand
(`stored`), so the bytes name them only. The rest is msgpack of the state's own values, so a field that a value gets
later needs nothing here. Of a lease that has been closed since only what later facts need is read back.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from pace_async.aims import Costs
from pace_async.events import (
    Advised,
    CascadeStageEnded,
    Claimed,
    GroupShipped,
    IdeasLeft,
    ImplementerTry,
    LearnedBefore,
    MeasuredAgain,
    NotesPage,
    Practised,
    ProgramGiven,
)
from pace_async.objectives import Spreads
from pace_async.population.journal.bodies import body_of, value_of
from pace_async.population.journal.stored import Blobs, CallBody, Lookup, call_of
from pace_async.search.bandit import Result
from pace_async.search.edit_bandit import Arm, Tries
from pace_async.search.results import ExperimentResult, KnownIdea, Results
from pace_async.search.state import Course, Island, Member, VisiblePool
from pace_async.staleness.rollback import Health
from pace_async.state.memory import EndedRollout
from pace_async.state.run_state import OpenRollout, Rollout, RunState, Terms, Turn
from pace_async.state.steering import NOTHING_SAID, Steering

PLAIN = (
    "learner",
    "served",
    "groups",
    "evaluated",
    "last_lease",
    "spend_usd",
    "reservations",
    "weights",
    "newest_given",
    "repeats",
)
"""Fields of the state that are numbers and texts."""
VALUES = ("spreads", "health", "shipped", "steering")
TABLES = ("reserved", "attempts", "turns", "notes", "left", "confirmed", "repeated", "measured")
"""Fields that are values, and mappings to values."""


class _Member(msgspec.Struct, array_like=True, frozen=True):
    candidate: int
    score: float
    feedback: str | None
    practice: str | None
    costs: Costs = ()


class _Open(msgspec.Struct, array_like=True, frozen=True):
    """An `OpenRollout`. `rest` has no facts with long texts, which stand here, and a place for its migrant."""

    rest: OpenRollout
    advice: str | None
    tries: tuple[str, ...]
    stages: tuple[str, ...]
    claim: str | None
    answers: tuple[CallBody, ...]
    practice: str | None
    given: str | None = None


class _Complete(msgspec.Struct, array_like=True, frozen=True):
    """A `Rollout`. `rest` has no calls, which stand here, and a place for its program."""

    rest: Rollout
    calls: tuple[CallBody, ...]


class _Remembered(msgspec.Struct, array_like=True, frozen=True):
    """What was put into a `Results`."""

    ideas: tuple[KnownIdea, ...]
    tested: tuple[ExperimentResult, ...]


class _State(msgspec.Struct, frozen=True):
    """A `RunState`. `islands`, `elites` and `front` name programs."""

    members: tuple[_Member, ...]
    seed_program: int | None
    best: int | None
    learner: int
    served: int
    groups: int
    evaluated: int
    last_lease: int
    spend_usd: float
    reservations: int
    weights: str | None
    spreads: Spreads
    health: Health
    shipped: GroupShipped | None
    reserved: dict[int, float]
    attempts: dict[tuple[int, str, int], int]
    turns: dict[int, Turn]
    notes: dict[int, NotesPage]
    islands: tuple[Island, ...]
    running: tuple[_Open, ...]
    complete: tuple[_Complete, ...]
    training: tuple[_Complete, ...]
    elites: dict[int, int]
    pools: dict[int, VisiblePool]
    results: dict[int, Result]
    edits: tuple[tuple[Arm, Tries], ...]
    memory: dict[int, _Remembered]
    scores: dict[int, float]
    ended: dict[int, EndedRollout]
    given: tuple[KnownIdea, ...] = ()
    first: ExperimentResult | None = None
    confirmed: dict[int, float] = {}
    repeated: dict[int, tuple[float, ...]] = {}
    repeats: int = 0
    measured: dict[int, MeasuredAgain] = {}
    newest_given: int = 0
    front: tuple[int, ...] = ()
    steering: Steering = NOTHING_SAID
    banned: dict[int, ExperimentResult] = {}
    left: dict[int, tuple[IdeasLeft, ...]] = {}
    earlier: LearnedBefore | None = None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_State)


def encoding_of(state: RunState) -> Callable[[], bytes]:
    """Takes hold of the state as it is now. What it returns encodes it, in any thread."""
    visible_state, memory = state.visible, state.memory
    programs = _Programs()
    plain: dict[str, Any] = {name: getattr(state, name) for name in (*PLAIN, *VALUES)}
    tables: dict[str, Any] = {name: dict(getattr(state, name)) for name in TABLES}
    islands = tuple(state.islands[number] for number in sorted(state.turns))
    running = tuple(replace(underway, paid=dict(underway.paid)) for underway in state.running.values())
    complete, training = tuple(state.complete.values()), state.training
    own, best, elites, front = state.seed_program, state.best, dict(visible_state.elites), visible_state.front
    visible: dict[str, Any] = {
        "pools": dict(visible_state.pools),
        "results": dict(visible_state.results),
        "edits": tuple(visible_state.edits.items()),
    }
    views = {
        number: _Remembered(tuple(view.ideas.values()), tuple(view.tested.values()))
        for number, view in memory.views.items()
    }
    scores, ended, given_ideas, first = dict(memory.scores), dict(memory.ended), memory.given, memory.first
    banned = dict(memory.banned)
    earlier = memory.earlier

    def encode() -> bytes:
        parts: dict[str, Any] = {
            "seed_program": programs.place(own),
            "best": programs.place(best),
            "islands": tuple(_island(island, programs.named) for island in islands),
            "running": tuple(_open(underway, programs) for underway in running),
            "complete": tuple(_complete(rollout, programs) for rollout in complete),
            "training": tuple(_complete(rollout, programs) for rollout in training),
            "elites": {number: programs.place(member) for number, member in elites.items()},
            "front": tuple(programs.place(member) for member in front),
        }
        whole = _State(
            members=tuple(programs.members),
            **parts,
            **plain,
            **tables,
            **visible,
            memory=views,
            scores=scores,
            ended=ended,
            given=given_ideas,
            first=first,
            banned=banned,
            earlier=earlier,
        )
        return sealed(_ENCODER.encode(whole))

    return encode


@dataclass(frozen=True, slots=True)
class Reading:
    """What the bytes name: the contents that facts of a lease refer to, and the programs of candidates. `whole` are
    the leases of which everything is read, as of the present."""

    contents: Callable[[int | None], Lookup]
    programs: Callable[[Sequence[int]], Mapping[int, str | None]]
    whole: Set[int]


def state_of_bytes(body: bytes, terms: Terms, reading: Reading) -> RunState:
    """The state that was encoded, under these terms. Raises ValueError for bytes that this version did not write, and
    for what they name and is not there."""
    try:
        stored = _DECODER.decode(unseal(body))
        return _state(stored, terms, reading)
    except (msgspec.MsgspecError, KeyError, IndexError) as error:
        raise ValueError(f"the state does not read: {error}") from None


def sealed(content: bytes) -> bytes:
    """The content with its checksum."""
    return zlib.crc32(content).to_bytes(4, "big") + content


def unseal(body: bytes) -> bytes:
    """The content that was sealed. Raises ValueError if the checksum is another."""
    content = body[4:]
    if zlib.crc32(content).to_bytes(4, "big") != body[:4]:
        raise ValueError("the checksum is not that of the bytes")
    return content


@dataclass(slots=True)
class _Programs:
    """The programs that a state holds, each once."""

    members: list[_Member] = field(default_factory=list[_Member])
    _places: dict[int, tuple[int, Member]] = field(default_factory=dict[int, tuple[int, Member]])

    def place(self, member: Member | None) -> int | None:
        """Where the program stands."""
        if member is None:
            return None
        known = self._places.get(id(member))
        if known is None:
            practice = _body(member.practice)
            known = self._places[id(member)] = len(self.members), member
            self.members.append(_Member(member.candidate, member.score, member.feedback, practice, member.costs))
        return known[0]

    def named(self, member: Member) -> Member:
        """Stands for the program: its number is the place."""
        place = self.place(member)
        assert place is not None
        return Member(place, "", 0.0)

    def named_or_none(self, member: Member | None) -> Member | None:
        """The same for a program that need not be there."""
        return None if member is None else self.named(member)


def _island(island: Island, member: Callable[[Member], Member]) -> Island:
    """The island with other values for its programs."""
    history = tuple(replace(snapshot, best=member(snapshot.best)) for snapshot in island.course.history)
    course: Course = replace(island.course, history=history)
    return replace(island, members=tuple(member(each) for each in island.members), course=course)


def _open(underway: OpenRollout, programs: _Programs) -> _Open:
    nothing: dict[str, Any] = dict.fromkeys(("advice", "claim", "practice", "base", "given"))
    without = {**nothing, "tries": (), "stages": (), "answers": ()}
    return _Open(
        replace(underway, migrant=programs.named_or_none(underway.migrant), **without),
        advice=_body(underway.advice),
        tries=tuple(body_of(attempt) for attempt in underway.tries),
        stages=tuple(body_of(stage) for stage in underway.stages),
        claim=_body(underway.claim),
        answers=tuple(Blobs().call(call, keep=False) for call in underway.answers),
        practice=_body(underway.practice),
        given=_body(underway.given),
    )


def _body(fact: object | None) -> str | None:
    return None if fact is None else body_of(fact)


def _complete(rollout: Rollout, programs: _Programs) -> _Complete:
    rest = replace(rollout, calls=(), member=programs.named_or_none(rollout.member))
    return _Complete(rest, tuple(Blobs().call(call, keep=False) for call in rollout.calls))


def _state(stored: _State, terms: Terms, reading: Reading) -> RunState:
    members = _members(stored.members, reading)

    def program(place: int | None) -> Member | None:
        return None if place is None else members[place]

    def named(member: Member | None) -> Member | None:
        return None if member is None else members[member.candidate]

    tables: dict[str, Any] = {name: getattr(stored, name) for name in (*PLAIN, *VALUES, *TABLES)}
    islands = (_island(island, lambda named: members[named.candidate]) for island in stored.islands)
    complete = tuple(_rollout(rollout, named(rollout.rest.member), reading) for rollout in stored.complete)
    state = RunState(
        terms,
        islands={island.number: island for island in islands},
        seed_program=program(stored.seed_program),
        best=program(stored.best),
        running={each.rest.lease.lease: _underway(each, named(each.rest.migrant), reading) for each in stored.running},
        complete={rollout.lease.lease: rollout for rollout in complete},
        training=tuple(_rollout(rollout, named(rollout.rest.member), reading) for rollout in stored.training),
        **tables,
    )
    visible, memory = state.visible, state.memory
    visible.elites = {number: members[place] for number, place in stored.elites.items()}
    visible.front = tuple(members[place] for place in stored.front)
    visible.pools, visible.results, visible.edits = stored.pools, stored.results, dict(stored.edits)
    memory.views = {
        number: Results.of(memory.fitness, view.ideas, view.tested) for number, view in stored.memory.items()
    }
    memory.scores, memory.ended, memory.first = stored.scores, stored.ended, stored.first
    memory.given, memory.banned, memory.earlier = stored.given, stored.banned, stored.earlier
    return state


def _members(stored: Sequence[_Member], reading: Reading) -> list[Member]:
    programs, content = reading.programs([each.candidate for each in stored]), reading.contents(None)
    members: list[Member] = []
    for each in stored:
        practice = None if each.practice is None else value_of(Practised, each.practice, content)
        program = programs[each.candidate]
        if program is None:
            raise ValueError(f"candidate {each.candidate} has no program")
        members.append(Member(each.candidate, program, each.score, each.feedback, practice, each.costs))
    return members


def _underway(stored: _Open, migrant: Member | None, reading: Reading) -> OpenRollout:
    lease = stored.rest.lease.lease
    content, whole = reading.contents(lease), lease in reading.whole
    unread: Mapping[str, Any] = {} if whole else {"calls": ()}
    return replace(
        stored.rest,
        migrant=migrant,
        advice=None if stored.advice is None else value_of(Advised, stored.advice, content, unread),
        tries=tuple(value_of(ImplementerTry, attempt, content) for attempt in stored.tries if whole),
        stages=tuple(value_of(CascadeStageEnded, stage, content) for stage in stored.stages if whole),
        claim=value_of(Claimed, stored.claim, content) if stored.claim is not None and whole else None,
        answers=tuple(call_of(call, content) for call in stored.answers if whole),
        practice=None if stored.practice is None else value_of(Practised, stored.practice, reading.contents(None)),
        given=value_of(ProgramGiven, stored.given, content) if stored.given is not None and whole else None,
    )


def _rollout(stored: _Complete, member: Member | None, reading: Reading) -> Rollout:
    lease = stored.rest.lease.lease
    content = reading.contents(lease)
    calls = tuple(call_of(call, content) for call in stored.calls if lease in reading.whole)
    return replace(stored.rest, member=member, calls=calls)
