"""What `pace web --write` lets people do, each as the command of the same name does it.

To add an action, add an entry to ACTIONS.
"""

from collections.abc import Callable, Mapping
from functools import partial

from pace_async.errors import UsageError
from pace_async.interface.ideas import add_idea, add_program
from pace_async.interface.steering import mark_candidates, mark_ideas, write_note
from pace_async.web.inbox import Action, Field

MOST_NUMBERS = 100


def _mark(mark: Callable[[str, list[int], str, bool], object], run: str, typed: Mapping[str, str]) -> None:
    word, _, undo = typed["word"].partition(" ")
    mark(run, _numbers(typed["numbers"]), word, bool(undo))


def _numbers(typed: str) -> list[int]:
    """Numbers between spaces or commas. Raises UsageError."""
    parts = typed.replace(",", " ").split()
    sound = all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts)
    if not (sound and 0 < len(parts) <= MOST_NUMBERS):
        raise UsageError(f"Name up to {MOST_NUMBERS} by their numbers, such as 12 31.")
    return [int(part) for part in parts]


def _add_program(run: str, typed: Mapping[str, str]) -> None:
    # A text with a line end is never taken for the name of a file of this machine.
    add_program(run, f"{typed['program'].rstrip()}\n", typed["about"])


ACTIONS: Mapping[str, Action] = {
    "idea": Action(
        "Add an idea",
        "The advisor sees it before other untried ideas, and decides whether and how to try it.",
        "Add the idea",
        {"text": Field("What to try, as you would tell a colleague", rows=3)},
        lambda run, typed: add_idea(run, typed["text"]),
    ),
    "mark": Action(
        "Pin ideas, or rule them out",
        "A pinned idea comes first until it is tried. One that is ruled out is not shown or chosen again.",
        "Say so",
        {
            "numbers": Field("Numbers of ideas"),
            "word": Field(
                "From now on they are",
                choices={
                    "pin": "pinned",
                    "veto": "ruled out",
                    "pin undo": "not pinned any more",
                    "veto undo": "not ruled out any more",
                },
            ),
        },
        partial(_mark, mark_ideas),
    ),
    "candidates": Action(
        "Ban candidates, or let the search build on them",
        "A banned one counts for nothing any more, and its rows stay. The next candidate builds on a pinned one.",
        "Mark the candidates",
        {
            "numbers": Field("Numbers of candidates"),
            "word": Field(
                "From now on they are",
                choices={
                    "ban": "banned",
                    "pin": "pinned",
                    "ban undo": "not banned any more",
                    "pin undo": "not pinned any more",
                },
            ),
        },
        partial(_mark, mark_candidates),
    ),
    "note": Action(
        "Write a page for the models",
        "They see it from the next candidate on, in place of an earlier page. An empty one takes that away.",
        "Put it there",
        {"text": Field("The page (may be empty)", rows=8, optional=True)},
        lambda run, typed: write_note(run, typed["text"]),
    ),
    "program": Action(
        "Add a program",
        "It is evaluated as it is, in the sandbox, as a candidate of its own. No advisor is rewarded for it.",
        "Add the program",
        {
            "about": Field("What it is (may be empty)", optional=True),
            "program": Field("Its text, or of several files as `pace show --program` prints them", rows=12),
        },
        _add_program,
    ),
}
