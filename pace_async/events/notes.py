"""What a model writes beside a search: a page of notes for the whole run, and which ideas leave an island's pool."""

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


@dataclass(frozen=True, slots=True)
class IdeasLeft:
    """Ideas that leave the pool of an island with their experiments: its questions show them no more. `newest` is the
    newest candidate of which the model knew, `from_group` as above. `ideas` are pairs: the number of an idea and its
    new words, which are empty if it leaves."""

    island: int
    newest: int
    from_group: int | None
    ideas: tuple[tuple[int, str], ...]
