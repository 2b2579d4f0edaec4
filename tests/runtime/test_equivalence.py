"""Synchronous mode equals bound 0 and a straight-line loop. The same seed gives the same population. A crash changes
nothing.

All values are compared, over the whole runtime with its database, on simulated stages under virtual time.
"""

from pathlib import Path
from typing import Any

import pytest

from pace_async.registry.parent_rules import PARENT_RULES
from pace_async.simulate.runs import TINY_TASK, SimulatedFaults
from pace_async.simulate.stages import World
from tests.support.simulated_runs import settings
from tests.support.straight_line import straight_line
from tests.support.virtual_runs import REACH, ROLLOUTS, SEARCH, Life, durations

ACTIONS = "select lease, island, action, candidate, partner, momentum from island_actions order by lease"
BASES = """
select e.lease from experiments e join leases l on l.lease = e.lease join candidates p on p.candidate = e.parent
where e.parent > 0 and p.island <> e.island and (l.migrant is null or l.migrant <> e.parent)"""
NIGHTLY = (pytest.mark.long, pytest.mark.nightly)
GROUPS = "select group_number, update_number, state, alpha, digest from groups order by group_number"


TROUBLES = {
    "none": SimulatedFaults(unparsed_every=0, fails_every=0, reach=REACH),
    "candidates fail": SimulatedFaults(reach=REACH),
    "steps are discarded": SimulatedFaults(discard_every=3, reach=REACH),
    "machines are lost": SimulatedFaults(lost=frozenset({3, 9, 10, 14, 33}), reach=REACH),
}


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_sync_is_bound_0_with_as_many_threads_as_a_group_is_a_straight_line_loop(
    tmp_path: Path, trouble: str, seed: int
) -> None:
    faults = TROUBLES[trouble]
    bound_0 = settings(**SEARCH, seed=seed, staleness__max_staleness=0, stop__candidates=60)
    sync = settings(**SEARCH, seed=seed, staleness__mode="sync", stop__candidates=60)
    one = Life(tmp_path / "bound 0", bound_0, World(seed=seed, durations=durations(seed)), faults).live()
    two = Life(tmp_path / "sync", sync, World(seed=seed, durations=durations(seed)), faults).live()
    assert one.state == two.state == "done"
    assert [x.replace("bound 0", "sync") for x in one.dump(tables=["runs"])] == two.dump(tables=["runs"])
    expected = straight_line(sync, TINY_TASK, faults)
    assert two.rows(ROLLOUTS) == expected.rollouts
    assert two.rows(GROUPS) == expected.groups
    assert two.rows(ACTIONS) == expected.actions
    assert {action for _, _, action, *_ in expected.actions} == {"backtrack", "crossover"}
    assert two.rows("select count(*) from ideas where origin is not null")[0][0] > 3
    assert two.rows("select count(*) from leases where migrant is not null")[0][0] > 3
    assert len(expected.rollouts) == 60
    assert len(expected.groups) == 7


@pytest.mark.parametrize("parents", [rule for rule in PARENT_RULES if rule != "tournament"])
def test_a_straight_line_loop_chooses_the_same_parents_in_every_way(tmp_path: Path, parents: str) -> None:
    sync = settings(**SEARCH, seed=1, search__parents=parents, staleness__mode="sync", stop__candidates=60)
    run = Life(tmp_path, sync, World(seed=1, durations=durations(1))).live()
    assert run.rows(ROLLOUTS) == straight_line(sync, TINY_TASK, SimulatedFaults()).rollouts
    assert len({parent for _, _, _, parent, *_ in run.rows(ROLLOUTS)}) > 10


def test_in_sync_nothing_depends_on_how_long_anything_takes(tmp_path: Path) -> None:
    config = settings(**SEARCH, seed=4, staleness__mode="sync", stop__candidates=48)
    dumps = [
        Life(tmp_path, config, World(seed=4, durations=durations(seed))).live().dump(times=False) for seed in (1, 2)
    ]
    assert dumps[0] == dumps[1]


def test_the_simulated_weights_make_the_candidates(tmp_path: Path) -> None:
    """So that the equalities here would notice a group trained in another order, or other weights served."""
    found: list[list[tuple[Any, ...]]] = []
    for objective in ("grpo", "maxk"):
        config = settings(**SEARCH, seed=4, learner__objective=objective, stop__candidates=40)
        run = Life(tmp_path, config, World(seed=4, durations=durations(1))).live()
        found.append(run.rows("select candidate, program_hash from candidates order by candidate"))
    assert found[0][:9] == found[1][:9]
    assert found[0][24:] != found[1][24:]


@pytest.mark.long
@pytest.mark.fault("Soak", "the same seed gives equal populations byte for byte")
@pytest.mark.parametrize("policy", ["pace", "soft", "drop"])
def test_the_same_seed_gives_equal_populations_byte_for_byte(tmp_path: Path, policy: str) -> None:
    config = settings(**SEARCH, seed=7, search__threads=12, staleness__policy=policy, stop__candidates=72)

    def populate() -> Life:
        draws = World(seed=7, durations=durations(7), fails=lambda stage, call: stage == "publish" and call % 3 == 0)
        return Life(tmp_path, config, draws, SimulatedFaults(discard_every=5, lost=frozenset({20, 41}))).live()

    first, second = populate(), populate()
    assert first.state == "done"
    assert first.dump() == second.dump()
    other = Life(tmp_path, config.model_copy(update={"seed": 8}), World(seed=8, durations=durations(8))).live()
    assert first.dump(times=False) != other.dump(times=False)


@pytest.mark.fault("Crash and resume", "killed around a commit")
@pytest.mark.parametrize(
    "offsets",
    [
        pytest.param((0,), id="every 24th"),
        pytest.param((2, 7, 13, 18), id="four of the others", marks=pytest.mark.long),
        pytest.param(tuple({*range(1, 24)} - {2, 7, 13, 18}), id="the rest", marks=NIGHTLY),
    ],
)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("before", [False, True], ids=["after", "just before"])
@pytest.mark.parametrize("mode", ["sync", "pace", "soft", "drop"])
def test_a_run_interrupted_at_any_commit_and_resumed_equals_the_uninterrupted_one(
    tmp_path: Path, mode: str, before: bool, offsets: tuple[int, ...]
) -> None:
    """Together they are interrupted at each commit. Evaluations and steps go on without a waiting task, as those of
    other machines do. In sync, where nothing depends on time, they start again. Only the process that read an answer
    records why it could not be parsed."""
    shape: dict[str, Any] = {"staleness__mode": "sync"}
    if mode != "sync":
        shape = {"search__threads": 12, "staleness__policy": mode}
    config = settings(**SEARCH, seed=3, stop__candidates=24, **shape)
    faults = SimulatedFaults(discard_every=4, lost=frozenset({11, 17}), reach=REACH)

    def life() -> Life:
        world = World(seed=3, durations=durations(3, 3.0 if mode == "sync" else 0.0), reattaches=mode != "sync")
        return Life(tmp_path, config, world, faults)

    def dump(run: Life) -> list[str]:
        return run.dump(times=mode != "sync", tables=["run_states", "faults"], columns=["detail"])

    whole = life().live()
    expected = dump(whole)
    begin = 2 if before else 1
    for last in (last for last in range(begin, whole.commits) if (last - begin) % 24 in offsets):
        broken = life().live(last, before=before)
        assert broken.state == "interrupted"
        assert broken.live().state == "done"
        assert dump(broken) == expected, f"commit {last}"


@pytest.mark.long
def test_a_run_interrupted_where_answers_name_bases_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    shape: dict[str, Any] = {"search__memory": "run", "advisor__calls": "one", "staleness__mode": "sync"}
    config = settings(**SEARCH, seed=3, stop__candidates=24, **shape)

    def life() -> Life:
        return Life(tmp_path, config, World(seed=3, durations=durations(3)), SimulatedFaults(reach=REACH))

    def dump(run: Life) -> list[str]:
        return run.dump(times=False, tables=["run_states"], columns=["detail"])

    whole = life().live()
    assert len(whole.rows(BASES)) > 2
    for last in range(3, whole.commits, 9):
        broken = life().live(last)
        assert broken.live().state == "done"
        assert dump(broken) == dump(whole), f"commit {last}"


@pytest.mark.long
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param({"staleness__mode": "sync"}, id="sync", marks=pytest.mark.nightly),
        pytest.param({"search__threads": 4}, id="pace"),
    ],
)
def test_a_run_interrupted_after_a_backtrack_equals_the_uninterrupted_one(
    tmp_path: Path, shape: dict[str, object]
) -> None:
    """There are few islands, so that each acts several times. The commits include those that open a lease with an
    action, and those between them and the return of the ideas set aside."""
    few: dict[str, object] = {"search__threads": 3, "learner__group_size": 3, "learner__k": 2, **shape}
    config = settings(**{**SEARCH, **few}, seed=3, stop__candidates=26)
    faults = SimulatedFaults(lost=frozenset({7, 11, 17}), reach=REACH)

    def life() -> Life:
        world = World(seed=3, durations=durations(3, 3.0 if "search__threads" not in shape else 0.0), reattaches=True)
        return Life(tmp_path, config, world, faults)

    def dump(run: Life) -> list[str]:
        synchronous = "search__threads" not in shape
        return run.dump(times=not synchronous, tables=["run_states", "faults"], columns=["detail"])

    whole = life().live()
    expected, islands = dump(whole), whole.population.load().run_state.islands
    acted = [action for (action,) in whole.rows("select action from island_actions")]
    assert acted.count("backtrack") >= 2
    assert acted.count("crossover") >= 2
    staying = 0
    for last in range(5, whole.commits, whole.commits // 18):
        broken = life().live(last)
        staying += any(island.course.stay for island in broken.population.load().run_state.islands.values())
        broken.live()
        assert dump(broken) == expected, f"commit {last}"
        assert broken.population.load().run_state.islands == islands
    assert staying >= 3


@pytest.mark.parametrize("every", [pytest.param(1, marks=NIGHTLY), 4, 19])
def test_a_run_interrupted_again_and_again_keeps_the_bound_and_every_lease(tmp_path: Path, every: int) -> None:
    """Here what was in flight is lost each time, as that of a dead machine is."""
    config = settings(**SEARCH, seed=5, search__threads=12, stop__candidates=40)
    run = Life(
        tmp_path, config, World(seed=5, durations=durations(5)), SimulatedFaults(discard_every=4, lost=frozenset({9}))
    )
    for _ in range(400):
        run.live(every + 1)
        if run.population.load().finished:
            break
    record = run.population.load()
    assert record.finished
    assert record.candidates == 40
    assert record.admitted == sum(record.closings.values()) + len(record.leases)
    assert record.closings["expired"] == 0
    assert run.rows("select max(staleness) from leases where state = 'trained'")[0][0] <= 2
    trained = run.rows("select lease from leases where state = 'trained'")
    assert len(trained) == len(set(trained)) == record.closings["trained"] > 0
