"""Ideas and programs of people: put into a run from outside while it searches, and how far each has come."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pace_async.errors import UsageError
from pace_async.interface.opening import open_anywhere
from pace_async.outside import sound
from pace_async.programs.reading import given_text

if TYPE_CHECKING:
    from pace_async.interface.documents import GivenIdeaShown
    from pace_async.population.reading.reader import Reader


def add_idea(run: str | None, text: str) -> int:
    """Put an idea into the run's inbox. The advisor sees it from the next lease on, before other untried ideas, under
    the number that is returned. A run that has ended takes it in when it is resumed. Raises UsageError for an idea
    that cannot be shown, and for a run whose advisor reads no ideas in words, GaveUp if the database cannot be
    written."""
    from pace_async.events.people import GIVEN
    from pace_async.population.reading.inbox import LONGEST_IDEA, one_line
    from pace_async.population.writing.write_people import NewEntry, insert_entry

    idea = one_line(text)
    if not idea:
        raise UsageError("An idea must say something.")
    if len(" ".join(text.split())) > LONGEST_IDEA:
        raise UsageError(f"An idea may have {LONGEST_IDEA:,} characters at most.")
    with open_anywhere(run) as (_, reader):
        refuse_without_words(reader)
        place, run_id = reader.place, reader.run_id()
    return GIVEN + insert_entry(place, run_id, NewEntry(idea))


def reads_words(reader: "Reader") -> bool:
    """Whether the run's advisor reads ideas in words."""
    from pace_async.configure import flat

    return flat(reader.header().config).get("search.memory") in ("run", "island")


def refuse_without_words(reader: "Reader") -> None:
    """Raises UsageError for a run whose advisor reads no ideas in words."""
    header = reader.header()
    if not reads_words(reader):
        raise UsageError(
            f"The advisor of {header.name} ({header.advisor}) reads no ideas in words: they are for runs with a "
            "language model as advisor (search.memory: run or island)."
        )


def add_program(run: str | None, program: str | Path, about: str = "") -> bool:
    """Put a program into the run's inbox: a file, a folder where the task's programs are folders, or the text. The run
    evaluates it as it is, as the next candidate that it begins. A run that has ended does so when it is resumed.
    Returns whether a run looks there while it goes on: one whose advisor reads no words looks only as it begins or is
    resumed. Raises UsageError for what is no program of the run's task, GaveUp if the database cannot be written."""
    from pace_async.evaluate.local import refused
    from pace_async.population.reading.inbox import LONGEST_PROGRAM, one_line
    from pace_async.population.writing.write_people import NewEntry, insert_entry
    from pace_async.task import task_of_run
    from pace_async.task.program_files import program_text

    with open_anywhere(run) as (_, reader):
        header, place, run_id, hears = reader.header(), reader.place, reader.run_id(), reads_words(reader)
    task = task_of_run(header)
    text = sound(given_text(program) or program_text(Path(program), task.spec))
    reason = "it is too long" if len(text) > LONGEST_PROGRAM else refused(text, task)
    if reason:
        raise UsageError(f"This is no program of task {task.name!r}: {reason}.")
    insert_entry(place, run_id, NewEntry(one_line(about), text))
    return hears


def ideas_given(run: str | None) -> "list[GivenIdeaShown]":
    """The ideas of people, the oldest first, and others that a person has pinned or ruled out: the keys of
    `pace idea list --json`. Raises UsageError."""
    from pace_async.population.reading import inbox

    with open_anywhere(run) as (_, reader):
        return [cast("GivenIdeaShown", asdict(idea)) for idea in reader.ask(inbox.ideas_given)]
