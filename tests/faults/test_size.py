"""What a long run costs to read: work in proportion to its rows, and none where one candidate is asked for.

Work is counted, never timed: on SQLite in steps of its machine, on PostgreSQL in rows that the nodes of the plan
handle. What grows with the square of the rows grows 16-fold from the smaller population to the larger.
"""

import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from sqlalchemy import Connection, event

from pace_async.observe.ledger import ledger_of_rows
from pace_async.population.connect import Place, engine, locate
from pace_async.population.reading import questions
from pace_async.population.reading.load import find_run, header_of, load_record, load_standing
from pace_async.population.reading.reader import Reader
from pace_async.population.reading.stream import Kind, stream
from pace_async.population.reading.timings import timings_of
from pace_async.report.facts import gather
from scripts.benchmarks.large_population import fill
from tests.support.population_facts import BOTH, empty_place, populations_of

SMALL, TIMES = 400, 4
SLACK = 1.6
"""Over work in proportion: for depths and sorts, which grow with the logarithm."""
DOCUMENTED = re.findall(
    r"```sql\n(.*?)```", (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8"), re.DOTALL
)
READS: dict[str, Callable[[Connection], object]] = {
    "resume": lambda connection: (load_standing(connection, None), load_record(connection, None)),
    "status": lambda connection: (
        questions.status(connection),
        ledger_of_rows(
            timings_of(connection, find_run(connection, None)), header_of(connection, find_run(connection, None))
        ),
    ),
    "best": questions.best,
}


pytestmark = pytest.mark.long  # large populations are filled


@pytest.fixture(scope="module", params=BOTH)
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Place]]:
    """A population, and one that is TIMES as large."""
    with populations_of(request):
        made = tuple(empty_place(tmp_path_factory.mktemp("size")) for _ in range(2))
        for place, rows in zip(made, (SMALL, SMALL * TIMES), strict=True):
            fill(locate(place), rows, prompt_tokens=8, lines=2)
        yield made[0], made[1]


@contextmanager
def _counted(place: Place) -> Generator[tuple[Connection, Callable[[], float]]]:
    """A connection, and the work that was done over it so far."""
    reader = engine(place, "read")
    done = [0.0]
    if isinstance(place, Path):

        def watched(connection: Any, _record: Any) -> None:
            def count() -> int:
                done[0] += 100
                return 0

            connection.set_progress_handler(count, 100)

        event.listen(reader, "connect", watched)
    else:

        def explained(connection: Connection, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            if not statement.lstrip().lower().startswith(("select", "with")):
                return
            with cursor.connection.cursor() as aside:
                aside.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
                [(plan,)] = aside.fetchall()
            done[0] += _rows_of((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])

        event.listen(reader, "before_cursor_execute", explained)
    try:
        with reader.connect() as connection:
            yield connection, lambda: done[0]
    finally:
        reader.dispose()


def _rows_of(node: dict[str, Any]) -> float:
    """Rows that the node and those below it gave or threw away."""
    own = node["Actual Rows"] + sum(value for name, value in node.items() if name.startswith("Rows Removed"))
    return node["Actual Loops"] * own + sum(_rows_of(below) for below in node.get("Plans", ()))


def _work(place: Place, read: Callable[[Connection], object]) -> float:
    with _counted(place) as (connection, done):
        read(connection)
        return done()


def _excess(places: tuple[Place, Place], read: Callable[[Connection], object]) -> float:
    """The work in the larger population over that in proportion to the smaller one. 1 is the most that is allowed."""
    small, large = (_work(place, read) for place in places)
    return large / (SLACK * TIMES * max(small, 1000.0))


@pytest.mark.nightly
@pytest.mark.fault("Size", "resume, status, best and report read each row a bounded number of times")
@pytest.mark.parametrize("name", READS)
def test_what_a_command_reads_grows_no_faster_than_the_run(places: tuple[Place, Place], name: str) -> None:
    assert _excess(places, READS[name]) <= 1


@pytest.mark.fault("Size", "resume, status, best and report read each row a bounded number of times")
def test_what_a_report_reads_grows_no_faster_than_the_run(places: tuple[Place, Place]) -> None:
    def report(connection: Connection) -> None:
        gather(Reader(places[0], connection.engine))

    assert _excess(places, report) <= 1


@pytest.mark.fault("Size", "every documented query reads each row a bounded number of times")
@pytest.mark.parametrize("statement", DOCUMENTED)
def test_what_a_documented_query_reads_grows_no_faster_than_the_run(
    places: tuple[Place, Place], statement: str
) -> None:
    assert _excess(places, lambda connection: connection.exec_driver_sql(statement).fetchall()) <= 1


@pytest.mark.fault("Size", "every export reads each row a bounded number of times")
@pytest.mark.parametrize("kind", [kind for kind in get_args(Kind) if kind != "front"])  # these runs have one score
def test_what_an_export_reads_grows_no_faster_than_the_run(places: tuple[Place, Place], kind: Kind) -> None:
    def export(connection: Connection) -> None:
        assert sum(1 for _ in stream(connection, find_run(connection, None), kind)) > SMALL / 10

    assert _excess(places, export) <= 1


@pytest.mark.fault("Size", "the ancestors of one candidate cost the same in every population")
def test_the_ancestors_of_a_candidate_cost_no_more_in_a_larger_population(places: tuple[Place, Place]) -> None:
    def ancestors(connection: Connection) -> None:
        found = connection.exec_driver_sql("select ancestor from lineage where candidate = 390 order by depth")
        assert [row[0] for row in found][-1] == 0

    small, large = (_work(place, ancestors) for place in places)
    assert large <= small + 1000


@pytest.mark.fault("Size", "the head of the leaderboard in a certain order")
@pytest.mark.parametrize("head", ["where rank <= 5 order by rank", "order by rank limit 5"])
def test_the_head_of_the_leaderboard_looks_up_only_what_it_shows(places: tuple[Place, Place], head: str) -> None:
    """In addition to one pass over the ranks. On SQLite the other columns are looked up for five rows only.
    PostgreSQL's planner may choose to read more, in proportion."""

    def top(columns: str) -> Callable[[Connection], object]:
        def read(connection: Connection) -> object:
            return connection.exec_driver_sql(f"select {columns} from leaderboard {head}").fetchall()

        return read

    assert _excess(places, top("*")) <= 1
    if not isinstance(places[1], Path):
        return
    bare = _work(places[1], top("rank, candidate"))
    whole = _work(places[1], top("*"))
    assert whole <= bare + 5 * SMALL, (bare, whole)
