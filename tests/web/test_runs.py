"""Answers are made once a commit, and a run that commits all the time does not make the server work all the time."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pace_async.web.runs import LOOKED_S, REST, WANTED_S, OpenRun


class Database:
    """A stand-in for a reader: the test sets its moment."""

    def __init__(self) -> None:
        self.place = Path("population.db")
        self.now = "one"

    def ask(self, question: object) -> str:
        return self.now

    @contextmanager
    def at_one_moment(self) -> Generator["Database"]:
        yield self


class Clock:
    """Seconds that pass only when the test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_an_answer_stands_until_the_next_commit() -> None:
    database, clock = Database(), Clock()
    run = OpenRun(database, clock)  # type: ignore[arg-type]
    made: list[str] = []

    def make(_: object) -> int:
        made.append(database.now)
        return len(made)

    assert [run.answer("page", make).value for _ in range(3)] == [1, 1, 1]
    database.now = "two"
    assert run.answer("page", make).value == 1  # looked at less than LOOKED_S ago
    clock.seconds += LOOKED_S
    assert [run.answer("page", make).value for _ in range(3)] == [2, 2, 2]
    assert made == ["one", "two"]


def test_a_slow_answer_stands_for_a_while_and_says_when_a_newer_one_can_be_had() -> None:
    database, clock = Database(), Clock()
    run = OpenRun(database, clock)  # type: ignore[arg-type]

    def make(_: object) -> str:
        clock.seconds += 2.0
        return database.now

    assert run.answer("page", make).again is None
    database.now = "two"
    clock.seconds += 1.0
    old = run.answer("page", make)
    assert (old.value, old.again) == ("one", REST * 2.0 - 1.0)
    clock.seconds += REST * 2.0 - 1.0
    new = run.answer("page", make)
    assert (new.value, new.again) == ("two", None)


def test_many_threads_that_ask_at_once_get_one_answer() -> None:
    run = OpenRun(Database())  # type: ignore[arg-type]
    made: list[int] = []
    everyone = threading.Barrier(8)

    def make(_: object) -> int:
        made.append(1)
        return len(made)

    def ask() -> None:
        everyone.wait(30)
        assert run.answer("page", make).value == 1

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert made == [1]


def test_pages_drawn_of_the_same_rows_read_them_once_and_are_as_old_as_they_are() -> None:
    database, clock = Database(), Clock()
    run = OpenRun(database, clock)  # type: ignore[arg-type]
    read: list[str] = []

    def rows(_: object) -> str:
        clock.seconds += 2.0
        read.append(database.now)
        return database.now

    assert run.drawn("a", rows, str.upper).value == "ONE"
    assert run.drawn("b", rows, str.title).value == "One"
    database.now = "two"
    clock.seconds += 1.0
    old = run.drawn("a", rows, str.upper)
    assert (old.value, old.again) == ("ONE", REST * 2.0 - 1.0)
    clock.seconds += REST * 2.0 - 1.0
    new = run.drawn("a", rows, str.upper)
    assert (new.value, new.again, read) == ("TWO", None, ["one", "two"])


def test_several_slow_answers_together_take_no_more_of_the_time_than_one() -> None:
    database, clock = Database(), Clock()
    run = OpenRun(database, clock)  # type: ignore[arg-type]

    def make(_: object) -> str:
        clock.seconds += 2.0
        return database.now

    for key in ("a", "b", "c"):
        assert run.answer(key, make).value == "one"
    database.now = "two"
    clock.seconds += 1.0
    old = run.answer("c", make)
    assert (old.value, old.again) == ("one", REST * 6.0 - 1.0)
    clock.seconds += WANTED_S + 1.0
    database.now = "three"
    assert run.answer("c", make).value == "three"
    database.now = "four"
    clock.seconds += 1.0
    assert run.answer("c", make).again == REST * 2.0 - 1.0  # nobody wants the others now
