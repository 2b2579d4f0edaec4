"""Calls for notes in what people see: counted under their own role, kept in the log, and no sign of a sick service."""

import json
from dataclasses import asdict

from pace_async.config import StopConfig
from pace_async.events import ImplementerCalled, LeaseOpened, NotesPage
from pace_async.observe import spending
from pace_async.observe.fold import fold
from pace_async.observe.jsonl import event_line
from pace_async.observe.model import RunView
from tests.support.population_facts import HEADER

PAGE = NotesPage(3, 12, None, "Worked:\na\nFailed:\nb\nOpen:\nc")


def called(outcome: str, page: NotesPage | None = None) -> ImplementerCalled:
    tokens = (900, 300) if page is not None else (0, 0)
    return ImplementerCalled(1, "m", outcome, *tokens, 0.25, 1.0, 2000.0, role="notes", notes=page)


def test_a_page_is_in_the_log_of_events() -> None:
    assert json.loads(event_line(called("ok", PAGE), 0.0))["notes"] == asdict(PAGE)
    assert json.loads(event_line(called("timeout"), 0.0))["notes"] is None


def test_calls_for_notes_are_counted_and_their_failures_alarm_nobody() -> None:
    view = fold(RunView(HEADER, StopConfig()), LeaseOpened(1, 1, 2, 0, 1000.0))
    for _ in range(4):
        view = fold(view, called("server_error"))
    assert view.unanswered == 0 and view.ledger.answers == () and view.ledger.handed == {}
    assert view.calls["notes"] == 4 and view.spent["notes"] == view.spend_usd == 1.0
    assert spending.calls({"implementer": 2, "notes": 1}, {"notes": 0.25, "implementer": 0.5}) == (
        "1 notes call ($0.25) and 2 implementer calls ($0.50)"
    )
    assert spending.parts_of_spend({"implementer": 0.5, "advisor": 1.0, "notes": 0.25}) == (
        " (advisor $1.00, notes $0.25, implementer $0.50)"
    )
    assert spending.parts_of_spend({"implementer": 0.5, "advisor": 0.0, "notes": 0.0}) == ""
