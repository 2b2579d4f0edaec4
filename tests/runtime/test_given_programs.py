"""Given programs in whole runs: each is a candidate once, as it is, and no advisor is rewarded for it."""

from pathlib import Path

import pytest

from pace_async.population.writing.write_people import NewEntry, inserted
from pace_async.runtime.run.core import Core
from pace_async.simulate.runs import TINY_TASK, SimulatedFaults
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import run_virtually
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import REACH, SEARCH, Life, durations

GIVEN = """
select g.entry, g.about, c.candidate, c.program, c.parent, c.outcome, e.description, l.state, l.group_number,
  (select count(*) from advisor_calls a where a.lease = l.lease),
  (select count(*) from implementer_calls i where i.lease = l.lease)
from given_programs g join leases l on l.lease = g.lease join candidates c on c.candidate = g.lease
join experiments e on e.lease = g.lease order by g.entry"""


def life(folder: Path, **changed: object) -> Life:
    given: dict[str, object] = {
        **{"search__memory": "run", "search__threads": 4, "stop__candidates": 40},
        **{"advisor__max_prompt_tokens": None, "implementer__max_tokens": 1000},
    }
    world = World(seed=3, durations=durations(3))
    return Life(folder, settings(**(given | changed)), world, SimulatedFaults(reach=REACH))


def program(number: int) -> str:
    return TINY_TASK.program.replace("start = 0", f"start = 0\nof_a_person = {number}")


def put(run: Life, number: int, about: str = "") -> None:
    run_virtually(
        lambda: run.population.read(lambda connection: inserted(connection, 1, NewEntry(about, program(number))))
    )


@pytest.mark.long
@pytest.mark.parametrize("objective", ["none", "grpo"])
@pytest.mark.parametrize("bound", [0, 2])
def test_each_program_is_one_candidate_however_often_the_run_is_cut_off(
    tmp_path: Path, objective: str, bound: int
) -> None:
    waits: dict[str, object] = {"staleness__mode": "sync", "search__threads": 8}
    changed: dict[str, object] = waits if bound == 0 else {"staleness__max_staleness": bound}
    run, added = life(tmp_path, learner__objective=objective, **SEARCH, **changed), 0
    while run.state != "done":
        added += 1
        put(run, added, f"variant {added}")
        run.live(17, before=added % 2 == 0)
    rows = run.rows(GIVEN)
    assert 4 < len(rows) <= added
    for place, (entry, about, _, text, parent, outcome, experiment, state, group, asked, implemented) in enumerate(
        rows
    ):
        assert (entry, about, text, experiment) == (place + 1, f"variant {entry}", program(entry), f"variant {entry}")
        assert (parent, outcome, state, group, asked, implemented) == (0, "ok", "skipped", None, 0, 0)
    assert len(run.rows("select * from candidates where candidate > 0")) == 40
    if objective == "grpo":
        assert run.rows("select count(*) from groups where state = 'trained'") > [(1,)]


def test_what_a_program_scores_is_shown_and_the_search_goes_on_from_it(tmp_path: Path) -> None:
    run = life(tmp_path, learner__objective="none", stop__candidates=60)
    put(run, 1, "ours\x1b[31m of\ntoday")
    run.live()
    assert run.rows(GIVEN)[0][1] == "ours [31m of today"
    assert run.rows("select count(*) from candidates where parent = 1") > [(0,)]


def test_a_run_whose_models_read_no_words_takes_programs_in_as_it_begins_or_goes_on(tmp_path: Path) -> None:
    run, processes = life(tmp_path, search__memory="pool", learner__objective="grpo"), list[Core]()

    def begun(core: Core) -> None:
        core.inbox_waits = len(processes) > 0
        processes.append(core)

    put(run, 1)
    put(run, 2)
    run.live(9, begun=begun)
    assert run.rows(GIVEN) == []
    run.live(begun=begun)
    assert [(entry, text) for entry, _, _, text, *_ in run.rows(GIVEN)] == [(1, program(1)), (2, program(2))]
    assert {row[6] for row in run.rows(GIVEN)} == {"A program that was given to the run."}
    assert processes[-1].inbox_waits is False


def test_a_program_that_is_none_of_the_task_has_an_outcome(tmp_path: Path) -> None:
    run = life(tmp_path, learner__objective="none")
    run_virtually(lambda: run.population.read(lambda connection: inserted(connection, 1, NewEntry("", "\x00 def ("))))
    run.live()
    ((_, _, _, text, *_),) = run.rows(GIVEN)
    assert "\x00" not in text and run.state == "done"


def test_bytes_in_the_inbox_are_a_program_too(tmp_path: Path) -> None:
    run = life(tmp_path, learner__objective="none")
    row = "insert into inbox (run_id, entry, text, at, program) values (1, 1, x'80', 0, x'80ff41')"
    run_virtually(lambda: run.population.read(lambda connection: connection.exec_driver_sql(row).rowcount))
    run.live()
    assert run.state == "done" and len(run.rows(GIVEN)) == 1


def test_many_that_wait_are_taken_in_order_by_all_threads_before_anything_else(tmp_path: Path) -> None:
    run = life(tmp_path, learner__objective="grpo", **SEARCH)
    for number in range(1, 21):
        put(run, number)
    run.live(31).live()
    assert [entry for entry, *_ in run.rows(GIVEN)] == list(range(1, 21))
    assert run.rows("select lease from given_programs order by entry") == [(number,) for number in range(1, 21)]
