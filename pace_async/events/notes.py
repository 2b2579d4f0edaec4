"""A page of notes: what worked, what failed and what is open, as a model wrote it for the whole run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotesPage:
    """`number` counts from 1 within the run. `candidates`: how many complete ones it was written from. `from_group`:
    the group from whose end on it is shown, in a run with a barrier, else None. `text` is sound and has a bounded
    length."""

    number: int
    candidates: int
    from_group: int | None
    text: str
