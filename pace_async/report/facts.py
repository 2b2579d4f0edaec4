"""The values that a report shows, read from a population in one pass. Nothing here draws.

Not asynchronous and not live: a report shows one moment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pace_async.baseline import BaselineComparison, beside_of
from pace_async.errors import UsageError
from pace_async.events import IslandActed, RunHeader
from pace_async.population.reading.account import Account, CompletedCandidate, account_of
from pace_async.population.reading.candidate_metrics import CandidateMetrics, measured_of
from pace_async.population.reading.front import NO_FRONT, Front, front_of_run
from pace_async.population.reading.money import Money, money_of
from pace_async.population.reading.read_facts import actions_of
from pace_async.population.reading.reader import Reader
from pace_async.population.reading.timeline import Timeline, timeline_of
from pace_async.population.reading.written_notes import WrittenNotes, notes_of_run

Row = Mapping[str, Any]
STEPS = 60
"""Ancestors of the best program whose programs are read."""


@dataclass(frozen=True)
class Facts:
    """`best` and `seed_program` are None before the first score. `actions`, `timeline`, `money`, `measured` and
    `programs`, those of the best program's nearest ancestors, are empty for pages that ask for them on their own."""

    header: RunHeader
    status: Row
    account: Account
    best: Row | None
    best_known: float | None
    seed_program: str | None
    notes: tuple[WrittenNotes, ...] = ()
    actions: tuple[IslandActed, ...] = ()
    timeline: Timeline | None = None
    money: Money | None = None
    programs: Mapping[int, str] = field(default_factory=dict[int, str])
    beside: BaselineComparison | None = None
    measured: tuple[CandidateMetrics, ...] = ()
    front: Front = NO_FRONT

    @cached_property
    def lineage(self) -> tuple[CompletedCandidate, ...]:
        """The best program and its ancestors, the task's own program first."""
        known = {row.candidate: row for row in self.account.candidates}
        line: list[CompletedCandidate] = []
        at = None if self.best is None else self.best["candidate"]
        while at is not None and at in known and len(line) <= len(known):
            line.append(known[at])
            at = known[at].parent
        return tuple(reversed(line))


def gather(reader: Reader, best_known: float | None = None) -> Facts:
    """The facts of a population's only run, all of one moment. `best_known` is the best score known for its task.
    Raises UsageError if there is no run, or several."""
    with reader.at_one_moment() as snapshot:
        facts = gather_parts(snapshot, best_known)
        programs = {row.candidate: snapshot.show(row.candidate)["program"] for row in facts.lineage[-STEPS:]}
        return replace(
            facts,
            actions=tuple(snapshot.ask(actions_of).values()),
            timeline=snapshot.ask(timeline_of),
            money=snapshot.ask(money_of),
            measured=snapshot.ask(measured_of),
            programs={number: program for number, program in programs.items() if program is not None},
        )


def gather_parts(reader: Reader, best_known: float | None = None, *, learning: bool = True) -> Facts:
    """The facts for a page that asks for the rest on its own, with those of the learner or without."""
    header = reader.header()
    try:
        best: Row | None = reader.best()
    except UsageError:
        best = None
    account = reader.ask(account_of, learning=learning)
    return Facts(
        header=header,
        status=reader.status(),
        account=account,
        best=best,
        best_known=best_known,
        beside=beside_of(header, next((row.score for row in account.candidates if row.candidate == 0), None)),
        seed_program=reader.show(0)["program"] if account.candidates else None,
        notes=reader.ask(notes_of_run),
        front=reader.ask(front_of_run) if header.aims else NO_FRONT,
    )
