"""What people say of candidates while a run searches: a banned one counts for nothing from the next lease on, and the
next lease builds on a pinned one."""

from pathlib import Path

import pytest
from sqlalchemy import Connection

from pace_async.observe.followed import Followed
from pace_async.observe.model import RunView
from pace_async.population.reading.confirmed import best_candidate
from pace_async.population.reading.following import facts_of
from pace_async.population.reading.load import header_of
from pace_async.runtime.run.core import Core
from pace_async.search.state import Member
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.virtual import run_virtually
from pace_async.state.memory import BANNED
from pace_async.state.run_state import RunState
from tests.support.virtual_runs import REACH, SEARCH, Life
from tests.support.wordy_runs import configured, first_questions, life, put

WORDS = "select entry, number, text, after from steering order by entry"
RANKED = "select candidate from candidates where merit is not null and candidate > 0 order by merit desc, candidate"


def ranked(run: Life) -> list[int]:
    """Candidates with a rank, the best first, without the task's own program."""
    return [number for (number,) in run.rows(RANKED)]


def known(state: RunState) -> set[int]:
    """Every candidate whose program a lease may start from, or a model is shown."""
    members: list[Member] = [*state.visible.elites.values(), *state.visible.front]
    for island in state.islands.values():
        members += [*island.members, *(snapshot.best for snapshot in island.course.history)]
    return {member.candidate for member in members}


def screen(run: Life) -> RunView:
    """What a screen shows, by the facts."""

    def asked(connection: Connection) -> RunView:
        followed = Followed(header_of(connection, 1))
        for entry in facts_of(connection, 1):
            followed.take(entry.fact)
        return followed.view

    return run_virtually(lambda: run.population.read(asked))


def hears(core: Core) -> None:
    """As a process that begins while there are words in the inbox."""
    core.inbox_waits = True


@pytest.mark.long
@pytest.mark.parametrize("memory", ["run", "island", "pool"])
def test_a_banned_candidate_is_no_parent_and_not_the_best_from_the_next_lease_on(tmp_path: Path, memory: str) -> None:
    run, cores = life(tmp_path, configured(search__memory=memory, stop__candidates=120, **SEARCH)), list[Core]()
    banned = ranked(run.live(150))[:3]
    for number in banned:
        put(run, "ban", "candidate", number)
    run.live(begun=lambda core: (hears(core), cores.append(core))[0])
    words = run.rows(WORDS)
    assert [(number, text) for _, number, text, _ in words] == [(number, "ban") for number in banned]
    (after,) = {row[3] for row in words}
    parents = run.rows(
        f"select c.parent, l.migrant from candidates c join leases l on l.lease = c.lease where l.lease > {after}"
    )
    assert len(parents) > 20 and not {each for row in parents for each in row} & {*banned}
    state = cores[-1].state
    assert not known(state) & {*banned}
    rows = run.rows(
        "select candidate, outcome, score is null from candidates where merit is null and score is not null"
    )
    assert sorted(rows) == [(number, "ok", 0) for number in sorted(banned)], "the rows stay"
    best = run_virtually(lambda: run.population.read(lambda connection: best_candidate(connection, 1)))
    assert state.best is not None and state.best.candidate == best == ranked(run)[0]
    shown = screen(run).best
    assert shown is not None and shown.candidate == best
    if memory != "run":
        return
    (view,) = state.memory.views.values()
    assert {view.tested[number].outcome for number in banned} == {BANNED}
    for lease, text in first_questions(run).items():
        for number in banned if lease > after else ():
            assert f"Candidate {number}, score" not in text and f"- {number} from" not in text.split("Others, the")[0]


@pytest.mark.long
@pytest.mark.parametrize("memory", ["run", "pool"])
def test_a_ban_that_is_taken_back_leaves_no_trace(tmp_path: Path, memory: str) -> None:
    run, cores = life(tmp_path, configured(search__memory=memory, stop__candidates=80)), list[Core]()
    best, second, *_ = ranked(run.live(150))
    for text, number in (("ban", best), ("ban", second), ("", best), ("", second)):
        put(run, text, "candidate", number)
        put(run, text, "candidate", number)  # to say it twice changes nothing
    run.live(40, begun=lambda core: (hears(core), cores.append(core))[0])
    assert ranked(run)[:2] == [best, second] and {best, second} <= known(cores[-1].state)
    assert len(run.rows(WORDS)) == 8 and cores[-1].state.memory.banned == {}
    shown = screen(run)
    assert shown.best is not None and shown.best.candidate == best and shown.behind[0].candidate == second
    assert shown.improvements[-1][1] == shown.best.score


@pytest.mark.long
def test_the_task_s_own_program_stays_if_all_others_are_banned(tmp_path: Path) -> None:
    run, cores = life(tmp_path, configured(stop__candidates=60, search__threads=1)), list[Core]()
    banned = ranked(run.live(120))
    for number in (0, *banned):
        put(run, "ban", "candidate", number)
    run.live(15, begun=cores.append)
    state, shown = cores[-1].state, screen(run).best
    assert not (known(state) | {*ranked(run)}) & {*banned} and all(island.members for island in state.islands.values())
    assert state.best is not None and shown is not None and not {state.best.candidate, shown.candidate} & {*banned}
    (_, _, _, after), *_ = run.rows(WORDS)
    assert run.live().state == "done"
    assert run.rows(f"select parent from candidates where candidate = {after + 1}") == [(0,)]


@pytest.mark.long
@pytest.mark.parametrize("lost", [False, True])
def test_each_of_the_next_leases_builds_on_one_pinned_candidate(tmp_path: Path, lost: bool) -> None:
    run = life(tmp_path, configured(stop__candidates=80, **SEARCH))
    run.live(150)
    (newest,), (first, second) = run.rows("select max(lease) from leases")[0], ranked(run)[-2:]
    if lost:
        run.faults = SimulatedFaults(reach=REACH, lost=frozenset({newest + 1}))
    for number in (first, second, 0):
        put(run, "pin", "candidate", number)
    run.live()
    migrants = run.rows(f"select lease, migrant from leases where lease > {newest} order by lease limit 4")
    turns = [first, second, 0, first] if lost else [first, second, 0]
    assert migrants[: len(turns)] == [(newest + 1 + place, number) for place, number in enumerate(turns)]
    parents = dict(run.rows("select candidate, parent from candidates"))
    for place, number in enumerate(turns):
        assert parents.get(newest + 1 + place, number) == number
    assert (newest + 1 in parents) is not lost


def test_words_about_what_nobody_can_build_on_are_passed_over(tmp_path: Path) -> None:
    run = life(tmp_path, configured(search__threads=2))
    run.live(100)
    ((failed,),) = run.rows("select min(candidate) from candidates where score is null")
    for number, text in ((failed, "pin"), (failed, "ban"), (0, "ban"), (999, "pin"), (-1, "ban"), (2**40, "ban")):
        put(run, text, "candidate", number)
    put(run, "veto", "candidate", 1)
    assert run.live().state == "done"
    assert run.rows(WORDS) == []


@pytest.mark.long
def test_200_words_and_ideas_are_taken_in_once_each_however_often_the_run_is_cut_off(tmp_path: Path) -> None:
    run, cores, said = life(tmp_path, configured(stop__candidates=120, **SEARCH)), list[Core](), 0
    while said < 200:
        for _ in range(10):
            said, number = said + 1, 1 + said % 17
            if said % 3:
                put(run, ("pin", "ban", "")[said % 7 % 3], "candidate", number)
            else:
                put(run, f"an idea of kind {said}")
        run.live(15, before=said % 20 == 0, begun=cores.append)
    if run.state != "done":
        run.live(begun=cores.append)
    words, ideas = run.rows(WORDS), run.rows("select entry from given_ideas")
    taken = [row[0] for row in (*words, *ideas)]
    scored = {number for (number,) in run.rows("select candidate from candidates where score is not null")}
    about = dict(run.rows("select entry, number from inbox where subject = 'candidate'"))
    waits = {entry for entry in range(1, 201) if entry in about and about[entry] not in scored}
    assert sorted(taken) == sorted({*range(1, 201)} - waits) and len(taken) > 150
    last = {number: text for _, number, text, _ in words}
    banned = {number for number, text in last.items() if text == "ban"}
    assert cores[-1].state.steering.banned() == banned and banned
    assert {
        number for (number,) in run.rows("select candidate from candidates where merit is null and score = score")
    } == banned
