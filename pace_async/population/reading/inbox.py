"""Reads what people put into a run and say of it, and how far each idea of theirs has come."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import Connection, and_, case, func, or_, select
from sqlalchemy.exc import DBAPIError

from pace_async.events import IdeaGiven, Steered, Subject
from pace_async.events.people import GIVEN, MARKS
from pace_async.fitness import Fitness
from pace_async.outside import MOST_COUNTED, readable
from pace_async.population.base import Population
from pace_async.population.models import (
    CandidateRow,
    ExperimentRow,
    GivenIdeaRow,
    GivenProgramRow,
    IdeaRow,
    InboxRow,
    LeaseRow,
    RunRow,
    SteeringRow,
)
from pace_async.population.reading.replay import scored_of
from pace_async.search.state import Member

LONGEST_IDEA = 2_000
"""Characters of an idea that are taken in."""
LONGEST_NOTE = 1_500
"""Characters of a person's page that are taken in."""
LONGEST_PROGRAM = 16_000_000
"""Characters of a program, with all of its files, that is taken in. A task may allow less."""


def one_line(text: str) -> str:
    """An idea as models see it, whoever wrote the row: one line of printable characters, and not too long."""
    return " ".join(readable(text).split())[:LONGEST_IDEA]


def page_of(text: str) -> str:
    """A person's page as models see it, whoever wrote the row: lines of printable characters, and not too long."""
    return "\n".join(line.rstrip() for line in readable(text).split("\n")).strip()[:LONGEST_NOTE]


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the inbox. `at` is in seconds since the epoch. An idea has no `program`, and a program's `text` says
    what it is. A word about what is there has a `subject`, and a page the subject note."""

    entry: int
    text: str
    at: float
    program: str | None = None
    subject: str | None = None
    number: int | None = None

    @property
    def is_sound(self) -> bool:
        """Whether a run can take it in, whoever wrote the row."""
        if self.subject in (None, "note"):
            return True
        least = 0 if self.subject == "candidate" and self.text != "ban" else 1  # the task's own program may be pinned
        return (
            self.subject in MARKS
            and self.text in ("", *MARKS[self.subject])
            and isinstance(self.number, int)  # SQLite keeps anything in a column of numbers
            and least <= self.number <= MOST_COUNTED
        )

    def taken_in(self, after: int, at: float, group: int = 0) -> IdeaGiven | Steered:
        """The fact that takes in what is no program. `after` is the newest lease, and `group` the one from whose end on
        a page is seen."""
        if self.subject is None:
            return IdeaGiven(self.entry, one_line(self.text), after, at)
        if self.subject == "note":
            return Steered(self.entry, "note", group, page_of(self.text), after, at)
        return Steered(self.entry, cast("Subject", self.subject), self.number or 0, self.text, after, at)


@dataclass(frozen=True, slots=True)
class GivenIdea:
    """A person's idea, or one of which a person has said something: the newest lease when the run took it in, None if
    it has not yet, how many candidates tried it out, and the candidate and score of the best one, None without a score.
    `mark` is what holds of it by the last word of a person, None without one, and `mark_after` the newest lease when
    the run took that word in."""

    number: int
    text: str
    at: float
    after: int | None
    tried: int
    candidate: int | None
    score: float | None
    mark: str | None = None
    mark_after: int | None = None


@dataclass(frozen=True, slots=True)
class InboxItem:
    """An entry of the inbox: `what` it is, and its words, or with `says` the word about what is there. A program that
    was taken in is the candidate `lease`. What else was taken in has `after`, the newest lease then."""

    entry: int
    what: str
    text: str
    at: float
    says: bool
    lease: int | None
    after: int | None


def put_in(connection: Connection, run_id: int, most: int) -> Sequence[InboxItem]:
    """The newest entries of the inbox, those that were taken in too, the newest first."""
    row, idea, program, word = InboxRow, GivenIdeaRow, GivenProgramRow, SteeringRow
    entries = connection.execute(
        select(
            *(row.entry, row.text, row.at, row.subject, row.number, row.program.is_not(None).label("is_program")),
            *(program.lease, func.coalesce(idea.after, word.after).label("after")),
        )
        .outerjoin(idea, and_(idea.run_id == row.run_id, idea.entry == row.entry))
        .outerjoin(program, and_(program.run_id == row.run_id, program.entry == row.entry))
        .outerjoin(word, and_(word.run_id == row.run_id, word.entry == row.entry))
        .where(row.run_id == run_id)
        .order_by(row.entry.desc())
        .limit(most)
    )

    def what(entry: int, subject: object, number: object, is_program: bool) -> str:
        if subject is not None:
            return one_line(f"{_text(subject)} {'' if number is None else number}")
        return "program" if is_program else f"idea {GIVEN + entry}"

    return [
        InboxItem(
            entry,
            what(entry, subject, number, is_program),
            one_line(_text(text)),
            at,
            subject is not None,
            lease,
            after,
        )
        for entry, text, at, subject, number, is_program, lease, after in entries
    ]


@dataclass(frozen=True, slots=True)
class UntriedIdea:
    """An idea of the advisor that no candidate has tried, and the lease that proposed it."""

    number: int
    text: str
    lease: int


def latest_untried(connection: Connection, run_id: int, most: int) -> Sequence[UntriedIdea]:
    """The newest of them, the newest first."""
    idea, experiment = IdeaRow, ExperimentRow
    rows = connection.execute(
        select(idea.idea, idea.description, idea.lease)
        .outerjoin(experiment, and_(experiment.run_id == idea.run_id, experiment.idea == idea.idea))
        .where(idea.run_id == run_id, experiment.lease.is_(None))
        .order_by(idea.idea.desc())
        .limit(most)
    )
    return [UntriedIdea(number, one_line(_text(text)), lease) for number, text, lease in rows]


def untaken(connection: Connection, run: str, after: int = 0) -> Sequence[Entry]:
    """The ideas and words that the run called `run` has not taken in, by number, then the first program that waits
    behind the entry `after`, if any. Programs of more than LONGEST_PROGRAM characters and rows that say nothing are
    passed over."""
    row, idea, program, word = InboxRow, GivenIdeaRow, GivenProgramRow, SteeringRow
    entries = (
        select(row.entry, row.text, row.at, row.program, row.subject, row.number)
        .join(RunRow, RunRow.run_id == row.run_id)
        .where(RunRow.name == run)
        .order_by(row.entry)
    )
    words = (
        entries.outerjoin(idea, and_(idea.run_id == row.run_id, idea.entry == row.entry))
        .outerjoin(word, and_(word.run_id == row.run_id, word.entry == row.entry))
        .where(row.program.is_(None), idea.entry.is_(None), word.entry.is_(None))
    )
    programs = entries.outerjoin(program, and_(program.run_id == row.run_id, program.entry == row.entry)).where(
        row.program.is_not(None),
        program.entry.is_(None),
        row.entry > after,
        func.length(row.program) <= LONGEST_PROGRAM,
    )
    rows = (*connection.execute(words), *connection.execute(programs.limit(1)))
    unchecked = (
        Entry(
            each.entry, _text(each.text), each.at, _text_or_none(each.program), _text_or_none(each.subject), each.number
        )
        for each in rows
    )
    return [entry for entry in unchecked if entry.is_sound]


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _text(value: object) -> str:
    """What SQLite kept in a column of texts, which may be anything that another program put there."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


async def waiting_in(population: Population, run: str, after: int = 0) -> Sequence[Entry] | None:
    """The same for a running run. None from a database that is away: it is asked again at the next lease."""
    try:
        return await population.read(lambda connection: untaken(connection, run, after))
    except (DBAPIError, OSError):
        return None


async def named_in(
    population: Population, run: str, candidates: Collection[int], fitness: Fitness
) -> Mapping[int, tuple[int, Member]] | None:
    """The programs with these numbers that have a score, each with its island, 0 for the task's own. None from a
    database that is away."""

    def asked(connection: Connection) -> Mapping[int, tuple[int, Member]]:
        run_id = connection.execute(select(RunRow.run_id).where(RunRow.name == run)).scalar_one()
        return scored_of(connection, run_id, candidates, fitness)

    try:
        return await population.read(asked) if candidates else {}
    except (DBAPIError, OSError):
        return None


def marks_of(connection: Connection, run_id: int, subject: Subject) -> dict[int, tuple[str, int | None]]:
    """The last word of a person about each number of this subject, and the newest lease when the run took it in, None
    if it has not yet."""
    row, word = InboxRow, SteeringRow
    words = connection.execute(
        select(row.number, row.text, word.after)
        .outerjoin(word, and_(word.run_id == row.run_id, word.entry == row.entry))
        .where(row.run_id == run_id, row.subject == subject)
        .order_by(row.entry)
    )
    marks: dict[int, tuple[str, int | None]] = {}
    for number, text, after in words:
        if Entry(0, _text(text), 0.0, subject=subject, number=number).is_sound:
            marks[number or 0] = _text(text), after
    return marks


@dataclass(frozen=True, slots=True)
class GivenNote:
    """The last page of a person, empty without one or where it was taken away. `after` as in `GivenIdea`. Behind a
    barrier it is shown from the end of the group `from_group` on."""

    text: str = ""
    at: float | None = None
    after: int | None = None
    from_group: int | None = None


def note_given(connection: Connection, run_id: int) -> GivenNote:
    """The run's page, whether or not it has taken it in."""
    row, word = InboxRow, SteeringRow
    note = connection.execute(
        select(row.text, row.at, word.after, word.number)
        .outerjoin(word, and_(word.run_id == row.run_id, word.entry == row.entry))
        .where(row.run_id == run_id, row.subject == "note", row.program.is_(None))
        .order_by(row.entry.desc())
        .limit(1)
    ).one_or_none()
    return GivenNote() if note is None else GivenNote(page_of(_text(note[0])), note[1], note[2], note[3] or None)


def idea_texts(connection: Connection, run_id: int, numbers: Sequence[int]) -> dict[int, str]:
    """The ideas of rollouts, of people and of an earlier run with these numbers, those among them that exist."""
    idea, row = IdeaRow, InboxRow
    people = [number - GIVEN for number in numbers if number > GIVEN]
    proposed = select(idea.idea, idea.description).where(idea.run_id == run_id, idea.idea.in_(numbers))
    submitted = select(row.entry + GIVEN, row.text).where(
        *(row.run_id == run_id, row.entry.in_(people), row.program.is_(None), row.subject.is_(None))
    )
    began = select(GivenIdeaRow.idea, GivenIdeaRow.description).where(
        *(GivenIdeaRow.run_id == run_id, GivenIdeaRow.idea.in_(numbers), GivenIdeaRow.entry < 0)
    )
    rows = (row for statement in (proposed, submitted, began) for row in connection.execute(statement))
    return {number: _text(text) for number, text in rows}


def ideas_given(connection: Connection, run_id: int) -> Sequence[GivenIdea]:
    """Every idea of people by number, then every other one that a person has pinned or ruled out."""
    row, given_idea, experiment, scored = InboxRow, GivenIdeaRow, ExperimentRow, CandidateRow
    marks = marks_of(connection, run_id, "idea")
    entries = connection.execute(
        select((row.entry + GIVEN).label("number"), row.text, row.at, given_idea.after)
        .outerjoin(given_idea, and_(given_idea.run_id == row.run_id, given_idea.entry == row.entry))
        .where(row.run_id == run_id, row.program.is_(None), row.subject.is_(None))
        .order_by(row.entry)
    )
    others = connection.execute(
        select(IdeaRow.idea, IdeaRow.description, LeaseRow.opened_at, IdeaRow.lease)
        .join(LeaseRow, and_(LeaseRow.run_id == IdeaRow.run_id, LeaseRow.lease == IdeaRow.lease))
        .where(IdeaRow.run_id == run_id, IdeaRow.idea.in_([number for number, (mark, _) in marks.items() if mark]))
        .order_by(IdeaRow.idea)
    )
    began = connection.execute(
        select(given_idea.idea, given_idea.description, given_idea.at, given_idea.after)
        .where(given_idea.run_id == run_id, given_idea.entry < 0)
        .where(given_idea.idea.in_([number for number, (mark, _) in marks.items() if mark]))
        .order_by(given_idea.idea)
    )
    experiments = connection.execute(
        select(experiment.idea, scored.candidate, case((scored.merit.is_not(None), scored.score)))
        .join(scored, and_(scored.run_id == experiment.run_id, scored.candidate == experiment.lease))
        .where(experiment.run_id == run_id, or_(experiment.idea > GIVEN, experiment.idea.in_(marks)))
        .order_by(experiment.idea, scored.merit.desc().nulls_last(), experiment.lease)
    )
    of_idea: dict[int | None, list[tuple[int | None, float | None]]] = {}
    for number, candidate, score in experiments:
        of_idea.setdefault(number, []).append((candidate if score is not None else None, score))

    def shown(number: int, text: object, at: float, after: int | None) -> GivenIdea:
        tries, (mark, mark_after) = of_idea.get(number, []), marks.get(number, ("", None))
        candidate, score = tries[0] if tries else (None, None)
        return GivenIdea(number, _text(text), at, after, len(tries), candidate, score, mark or None, mark_after)

    return [shown(number, text, at, after) for number, text, at, after in (*entries.all(), *others.all(), *began.all())]
