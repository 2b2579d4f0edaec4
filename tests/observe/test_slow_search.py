"""The plain lines of a search whose candidates take long."""

import io

from pace_async.config import StopConfig
from pace_async.events import Fact, RunStateChanged
from pace_async.observe.fold import fold
from pace_async.observe.model import RunView
from pace_async.observe.output import Output
from pace_async.observe.plain import CANDIDATE_S, PlainDisplay
from tests.support.observe_facts import BEGIN, scored
from tests.support.population_facts import HEADER


def lines_of(facts: list[Fact]) -> list[str]:
    stream = io.StringIO()
    output = Output(stream)
    display, view = PlainDisplay(output), RunView(HEADER, StopConfig(candidates=24))
    for fact in facts:
        view = fold(view, fact)
        display.take(fact, view)
    output.flush()
    return stream.getvalue().splitlines()


def test_a_candidate_that_failed_has_a_line_unless_one_was_just_written() -> None:
    at = BEGIN + CANDIDATE_S
    failures: list[Fact] = [scored(1, None, at), scored(2, None, at + 1), scored(3, None, at + CANDIDATE_S)]
    lines = lines_of([RunStateChanged("running", "", BEGIN), *failures])
    assert [line.split()[1:3] for line in lines if " candidate " in line] == [["candidate", "1"], ["candidate", "3"]]


def test_a_run_that_drains_says_how_to_stop_it_at_once() -> None:
    lines = lines_of([RunStateChanged("running", "", BEGIN), RunStateChanged("draining", "interrupted", BEGIN + 1)])
    assert lines[-1].strip() == "interrupting the run now stops it at once"
