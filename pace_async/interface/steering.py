"""What people say of ideas and candidates of a run while it searches."""

from collections.abc import Container, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from pace_async.errors import UsageError
from pace_async.interface.opening import open_anywhere

if TYPE_CHECKING:
    from pace_async.interface.documents import GivenNoteShown
    from pace_async.population.reading.reader import Reader

DONE = {"veto": "ruled out", "pin": "pinned", "ban": "banned"}
"""What an idea or a candidate is by a person's word."""


def mark_ideas(run: str | None, numbers: Sequence[int], mark: str, undo: bool = False) -> bool:
    """Pin these ideas or rule them out from the next lease on, or take that back. The last word about an idea counts.
    Returns whether the run goes on: one that has ended takes the words in when it is resumed. Raises UsageError for a
    number of no idea, a word that was not said, too many pinned ideas, and a run whose advisor reads no ideas in words,
    GaveUp if the database cannot be written."""
    from pace_async.context.table import MOST_PINNED
    from pace_async.interface.ideas import refuse_without_words
    from pace_async.population.reading import inbox
    from pace_async.population.writing.write_people import NewEntry, insert_entry

    with open_anywhere(run) as (_, reader):
        refuse_without_words(reader)
        known = reader.ask(lambda connection, run_id: inbox.idea_texts(connection, run_id, numbers))
        marked = {idea.number: idea for idea in reader.ask(inbox.ideas_given) if idea.mark == mark}
        place, run_id, goes_on = reader.place, reader.run_id(), _goes_on(reader)
    _refuse("idea", numbers, known.keys(), marked.keys(), mark, undo)
    first = {number for number, idea in marked.items() if not idea.tried} | {*numbers}
    if mark == "pin" and not undo and len(first) > MOST_PINNED:
        raise UsageError(f"At most {MOST_PINNED} untried ideas can be pinned at a time: `pace idea pin RUN N --undo`.")
    for number in numbers:
        insert_entry(place, run_id, NewEntry("" if undo else mark, subject="idea", number=number))
    return goes_on


def mark_candidates(run: str | None, numbers: Sequence[int], mark: str, undo: bool = False) -> bool:
    """Ban these candidates from the next lease on, or let the next leases build on them, one each, or take that back.
    The last word about a candidate counts. Returns whether the run takes the words in while it goes on: one that has
    ended, or whose models read no words, does when it is resumed. Raises UsageError for a number of no candidate or of
    one without a score, for the task's own program that is to be banned, a banned one that is to be pinned, and a word
    that was not said, GaveUp if the database cannot be written."""
    from pace_async.interface.ideas import reads_words
    from pace_async.population.writing.write_people import NewEntry, insert_entry

    with open_anywhere(run) as (_, reader):
        candidates = [reader.show(number) for number in numbers]
        place, run_id, hears = reader.place, reader.run_id(), reads_words(reader) and _goes_on(reader)
    marked = [each["candidate"] for each in candidates if each["mark"] == mark]
    _refuse("candidate", numbers, numbers, marked, mark, undo)
    for each in () if undo else candidates:
        name = f"Candidate {each['candidate']}"
        if each["score"] is None:
            raise UsageError(f"{name} has no score, so nothing is built on it.")
        if mark == "ban" and not each["candidate"]:
            raise UsageError(f"{name} is the task's own program, which cannot be banned.")
        if mark == "pin" and each["mark"] == "ban":
            raise UsageError(f"{name} is banned: `pace candidate ban RUN {each['candidate']} --undo` takes that back.")
    for number in numbers:
        insert_entry(place, run_id, NewEntry("" if undo else mark, subject="candidate", number=number))
    return hears


def write_note(run: str | None, text: str) -> bool:
    """Let models see this page from the next lease on, in place of an earlier one, or none if it is empty. Returns
    whether the run goes on: one that has ended takes it in when it is resumed. Raises UsageError for a page that is too
    long or only of what cannot be shown, and for a run whose advisor reads no words, GaveUp if the database cannot be
    written."""
    from pace_async.interface.ideas import refuse_without_words
    from pace_async.outside import readable
    from pace_async.population.reading.inbox import LONGEST_NOTE, page_of
    from pace_async.population.writing.write_people import NewEntry, insert_entry

    if len(readable(text).strip()) > LONGEST_NOTE:
        raise UsageError(f"A note may have {LONGEST_NOTE:,} characters at most.")
    if text and not page_of(text):
        raise UsageError("A note must say something.")
    with open_anywhere(run) as (_, reader):
        refuse_without_words(reader)
        place, run_id, goes_on = reader.place, reader.run_id(), _goes_on(reader)
    insert_entry(place, run_id, NewEntry(page_of(text), subject="note"))
    return goes_on


def note_of(run: str | None) -> "GivenNoteShown":
    """The page of a person: the keys of `pace note --json`. Raises UsageError."""
    from pace_async.population.reading import inbox

    with open_anywhere(run) as (_, reader):
        return cast("GivenNoteShown", asdict(reader.ask(inbox.note_given)))


def _refuse(
    what: str, numbers: Sequence[int], known: Container[int], marked: Container[int], mark: str, undo: bool
) -> None:
    """Raises UsageError for a number of nothing, and for a word that cannot be taken back because nobody said it."""
    for number in numbers:
        if number not in known:
            raise UsageError(f"The run has no {what} {number}.")
        if undo and number not in marked:
            raise UsageError(f"{what.capitalize()} {number} is not {DONE[mark]}.")


def _goes_on(reader: "Reader") -> bool:
    """Whether the run has not ended, by its rows."""
    from pace_async.population.reading.load import GOES_ON, state_of_run

    return reader.ask(state_of_run)[0] in GOES_ON
