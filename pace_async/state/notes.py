"""Which page of notes may be seen, and when the next one is due. Pure.

Invariants: all of it follows from committed facts. Without a barrier a page is seen from its commit on. Behind one it
is seen from the end of a group on, which its fact names, so all rollouts of a group see the same page. A page is due
once as many further candidates can be seen as the setting says, so a resume neither repeats nor forgets one.
"""

from collections.abc import Mapping
from dataclasses import replace

from pace_async.events import NotesPage
from pace_async.state.run_state import RunState

KEPT = 2
"""The newest pages that are kept: behind a barrier the newest may not be seen yet."""


def with_page(pages: Mapping[int, NotesPage], page: NotesPage) -> dict[int, NotesPage]:
    """The pages with one more, without those that nobody will see again."""
    known = {**pages, page.number: page}
    return {number: known[number] for number in sorted(known)[-KEPT:]}


def voided(pages: Mapping[int, NotesPage]) -> dict[int, NotesPage]:
    """The pages after a corrected evaluator came into force: what they say of scores is void, and the next one is
    due."""
    return {number: replace(page, candidates=0, text="") for number, page in pages.items()}


def page_seen(state: RunState) -> NotesPage | None:
    """The newest page that may be seen."""
    ended = groups_ended(state)
    pages = (state.notes[number] for number in sorted(state.notes, reverse=True))
    return next((page for page in pages if page.text and (page.from_group or 0) <= ended), None)


def note_seen(state: RunState) -> str:
    """The newest page of a person that may be seen, empty without one."""
    return state.steering.page(groups_ended(state))


def candidates_seen(state: RunState) -> int:
    """Complete candidates that may be seen: behind a barrier those of groups that have ended."""
    waiting = len(state.complete) + len(state.training) if state.bound == 0 else 0
    return state.evaluated - waiting


def is_due(state: RunState, every: int) -> bool:
    """Whether a page is due that nobody has written yet."""
    last = max((page.candidates for page in state.notes.values()), default=0)
    return every > 0 and candidates_seen(state) // every > last // every


def next_page(state: RunState, candidates: int, text: str) -> NotesPage:
    """The page that is committed now. It was written from so many candidates."""
    return NotesPage(max(state.notes, default=0) + 1, candidates, group_to_see(state), text)


def group_to_see(state: RunState) -> int | None:
    """The group from whose end on a page is seen that is committed now, behind a barrier one that does not end in this
    very moment. None without a barrier."""
    barrier = state.bound == 0 and state.terms.trains
    return groups_ended(state) + 1 + bool(state.claimed.rollouts) if barrier else None


def groups_ended(state: RunState) -> int:
    """The groups whose end may be seen."""
    return state.groups - bool(state.training)
