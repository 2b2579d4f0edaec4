"""A run's record in Python, during the run or after it.

Invariant: nothing is written, and nothing stays open. Each question opens the population read-only and sees what is
committed at that moment.
"""

import importlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from pace_async.errors import UsageError
from pace_async.interface.following import events_of
from pace_async.interface.ideas import add_idea, add_program, ideas_given
from pace_async.interface.opening import open_anywhere, open_run
from pace_async.interface.standing import best_of, front_shown, notes_of, standing_of
from pace_async.interface.steering import mark_candidates, mark_ideas, note_of, write_note
from pace_async.runtime.run_paths import find_run_paths

if TYPE_CHECKING:
    from pace_async.interface.documents import (
        BestProgram,
        FrontShown,
        GivenIdeaShown,
        GivenNoteShown,
        NotesShown,
        ShownCandidate,
        Status,
    )

Rows = Literal["candidates", "rollouts", "ideas", "updates", "front"]


@dataclass(frozen=True, slots=True)
class Run:
    """A run by the name under which it was found: its folder, or the URL of a database with `#NAME` behind it.

    Every method raises UsageError in one sentence if the population cannot be read.
    """

    name: str

    def status(self) -> "Status":
        """How far the run is, its outcomes, staleness, speed (per hour) and spend (USD): the keys of
        `pace status --json`. Raises UsageError for a run named by URL, whose folder is not here."""
        with open_run(self.name) as (paths, reader):
            return standing_of(paths, reader)

    @property
    def best(self) -> "BestProgram":
        """The best candidate: `candidate`, `score`, `program`, `fresh_score`, where it came from, `best_known`. Raises
        UsageError before the first candidate has a score."""
        with open_anywhere(self.name) as (_, reader):
            return best_of(reader)

    @property
    def front(self) -> "FrontShown":
        """The programs that no other one surpasses, in a run with several objectives: the keys of `pace best --front
        --json`. Raises UsageError for another run, and before the first candidate has a score."""
        with open_anywhere(self.name) as (_, reader):
            return front_shown(reader)

    def candidate(self, number: int) -> "ShownCandidate":
        """One candidate with its idea, experiment, answers and program: the keys of `pace show --json`."""
        with open_anywhere(self.name) as (_, reader):
            return cast("ShownCandidate", reader.show(number))

    def notes(self) -> "list[NotesShown]":
        """The pages of notes that a model wrote (`search.notes_every`), the oldest first: the keys of
        `pace show --notes --json`."""
        with open_anywhere(self.name) as (_, reader):
            return notes_of(reader)

    def add_idea(self, text: str) -> int:
        """Put an idea of yours into the run, as `pace idea add` does. Returns its number. Raises UsageError for a run
        whose advisor reads no ideas in words, GaveUp if the database cannot be written."""
        return add_idea(self.name, text)

    def add_program(self, program: str | Path, about: str = "") -> bool:
        """Let the run evaluate a program of yours, as `pace candidate add` does. Returns whether it looks for programs
        while it goes on, or only as it begins or is resumed. Raises UsageError for what is no program of its task,
        GaveUp if the database cannot be written."""
        return add_program(self.name, program, about)

    def pin_ideas(self, *numbers: int, undo: bool = False) -> bool:
        """Let these ideas come first among the untried ones, as `pace idea pin` does. Returns whether the run goes on:
        one that has ended does so when it is resumed. Raises UsageError for a number of no idea, GaveUp if the database
        cannot be written."""
        return mark_ideas(self.name, numbers, "pin", undo)

    def veto_ideas(self, *numbers: int, undo: bool = False) -> bool:
        """Rule these ideas out, as `pace idea veto` does. Returns and raises as `pin_ideas` does."""
        return mark_ideas(self.name, numbers, "veto", undo)

    def ban_candidates(self, *numbers: int, undo: bool = False) -> bool:
        """Let these candidates count for nothing any more, as `pace candidate ban` does. Returns whether the run takes
        that in while it goes on, or when it is resumed. Raises UsageError for a number of no candidate with a score and
        for candidate 0, GaveUp if the database cannot be written."""
        return mark_candidates(self.name, numbers, "ban", undo)

    def pin_candidates(self, *numbers: int, undo: bool = False) -> bool:
        """Let the next candidates build on these, one on each, as `pace candidate pin` does. Returns and raises as
        `ban_candidates` does, also for a banned one."""
        return mark_candidates(self.name, numbers, "pin", undo)

    def write_note(self, text: str) -> bool:
        """Let models see this page of yours from the next lease on, in place of an earlier one, or none if it is empty,
        as `pace note` does. Returns whether the run goes on: one that has ended takes it in when it is resumed. Raises
        UsageError for a page that cannot be shown, GaveUp if the database cannot be written."""
        return write_note(self.name, text)

    def note(self) -> "GivenNoteShown":
        """The page of a person, and whether the run has taken it in: the keys of `pace note --json`."""
        return note_of(self.name)

    def ideas(self) -> "list[GivenIdeaShown]":
        """The ideas that people put into the run, pinned or ruled out, and what came of each: the keys of
        `pace idea list --json`."""
        return ideas_given(self.name)

    async def events(self, after: int = 0) -> AsyncIterator[dict[str, Any]]:
        """The run's facts in the order of their commits, as they come, until the run ends or its process has died: the
        lines of `events.jsonl` without those of its display, each with its number `seq`. Those up to `after` are left
        out. Of a run named by URL only its own last state tells that it ended."""
        async for event in events_of(self.name, after, self._goes_on):
            yield event

    def _goes_on(self) -> bool:
        from pace_async.population.lock import is_driven
        from pace_async.population.reading.load import GOES_ON, state_of_run

        if "://" not in self.name:
            return is_driven(find_run_paths(self.name).folder)
        with open_anywhere(self.name) as (_, reader):
            return reader.ask(state_of_run)[0] in GOES_ON

    def rows(self, what: Rows = "candidates") -> list[dict[str, Any]]:
        """One dictionary for each candidate, rollout, idea or update, oldest first: the columns of `pace export`. Times
        are seconds since the epoch."""
        with open_anywhere(self.name) as (_, reader):
            return list(reader.stream(what))

    def candidates(self) -> Any:
        """The candidates as a pandas DataFrame, one row each. `rows()` gives the same without pandas."""
        return self.frame("candidates")

    def frame(self, what: Rows = "candidates") -> Any:
        """Rows as a pandas DataFrame. Raises UsageError if pandas is not installed."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise UsageError("A data frame needs pandas: `pip install pandas`, or take `rows()`.") from None
        return pandas.DataFrame(self.rows(what))

    def sql(self, statement: str, timeout_s: float = 60.0) -> list[dict[str, Any]]:
        """The answer to one SELECT over the run's tables and views, one dictionary for each row. Raises UsageError for
        anything that writes, and after `timeout_s` seconds."""
        with open_anywhere(self.name) as (_, reader):
            answer = reader.sql(statement, timeout_s)
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def open(run: str | Path | None = None) -> Run:
    """A run for reading: by its folder, its name under ./runs, the name of a task for its latest run, or the URL of a
    database (`#NAME` names one of several runs there). Without a name the latest run of all. Raises UsageError if there
    is none."""
    name = None if run is None else str(run)
    with open_anywhere(name) as (paths, reader):
        reader.header()
        return Run(str(name) if paths is None else str(paths.folder.resolve()))
