"""An advisor that has collapsed goes back to its last good version: the decision, and runs on simulated stages."""

from bisect import bisect_left
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.events import GroupEnded
from pace_async.observe import formatting
from pace_async.observe.fold import fold
from pace_async.observe.history import view_of
from pace_async.observe.summary import closing_words
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import run_virtually
from pace_async.staleness.rollback import NO_GROUPS, SLOWER, TRIAL, Count, Health, chance
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import REACH, SEARCH, Life, durations

COUNTS = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: Count(max(pair), min(pair)))


@given(COUNTS, COUNTS)
def test_the_chance_of_a_count_is_that_of_a_random_draw(one: Count, other: Count) -> None:
    found = chance(one, other)
    assert 0.0 <= found <= 1.0
    if one.rollouts and other.rollouts and one.unparsed < one.rollouts:
        assert chance(replace(one, unparsed=one.unparsed + 1), other) <= found + 1e-9
    assert chance(replace(one, unparsed=0), other) == pytest.approx(1.0)


def test_the_chance_is_fishers() -> None:
    assert chance(Count(8, 6), Count(8, 1)) == pytest.approx(0.0203, abs=1e-4)  # 28·8 / C(16, 7)-table: R's fisher.test


GROUP = st.dictionaries(st.integers(0, 2), st.integers(0, 8), min_size=1)


@given(st.lists(st.tuples(GROUP, st.booleans()), max_size=40))
def test_a_good_version_is_never_void_and_never_falls(groups: list[tuple[dict[int, int], bool]]) -> None:
    health, update = NO_GROUPS, 0
    for ages, ends_trained in groups:
        rollouts = {update - min(age, update): Count(8, bad) for age, bad in ages.items()}
        before = health
        health = health.after(update, rollouts)
        assert before.good <= health.good <= update
        assert health.trial is not None
        assert health.trial > health.good
        if health.collapsed:
            good = health.good
            health = health.back(update)
            assert health.good == update + 1
            assert health.void[-1] == (good + 1, update)
            assert not health.collapsed
            update += 1
        else:
            update += ends_trained
        assert not health.is_void(health.good)
        assert set(health.needed) <= set(range(1, update + 2))
        assert health.rate == SLOWER ** max(0, health.rollbacks - 1)


def of(update: int, rollouts: int, unparsed: int) -> dict[int, Count]:
    return {update: Count(rollouts, unparsed)}


def test_a_version_whose_answers_parse_as_before_becomes_the_good_one() -> None:
    health = NO_GROUPS.after(0, of(0, 8, 1))
    assert (health.good, health.trial) == (0, 1)
    for update in range(1, TRIAL // 8 + 1):
        health = health.after(update, of(update, 8, 0))
    assert health.good == 1
    assert health.trial == TRIAL // 8 + 1


def test_a_version_that_parses_worse_stays_on_trial_and_clearly_worse_ones_end_it() -> None:
    health = NO_GROUPS
    for update in range(3):
        health = health.after(update, of(0, 8, 0))
    health = health.after(3, of(3, 8, 1)).after(4, of(4, 8, 2))
    assert health.good == 0
    assert not health.collapsed, "three of sixteen may be chance"
    health = health.after(5, of(5, 8, 8))
    assert health.collapsed
    assert not health.back(5).after(6, of(4, 8, 8)).collapsed, "void rollouts count for nothing"


def test_an_advisor_that_never_parsed_well_is_not_called_collapsed() -> None:
    health = NO_GROUPS
    for update in range(30):
        health = health.after(update, of(max(0, update - 2), 8, 4))
        assert not health.collapsed


# Whole runs.

RUINING = frozenset({7})
SMALL: dict[str, Any] = {**SEARCH, "search__threads": 12, "stop__candidates": 200}
STATES = """
select g.group_number, g.update_number, g.state, g.reason, g.restores, g.rate,
       sum(c.outcome = 'unparsed') as unparsed, min(l.oldest_version) as oldest
from groups g join leases l on l.group_number = g.group_number join candidates c on c.lease = l.lease
group by g.group_number order by g.group_number"""


def life(folder: Path, *, ruined_by: frozenset[int] = RUINING, seed: int = 3, **more: Any) -> Life:
    config = settings(**{**SMALL, **more}, seed=seed)
    world = World(seed=seed, durations=durations(seed, 0.0), reattaches=True)
    return Life(
        folder, config, world, SimulatedFaults(unparsed_every=0, fails_every=0, reach=REACH, ruined_by=ruined_by)
    )


def assert_promises(run: Life, policy: str = "pace") -> None:
    """Raise AssertionError unless what holds of every run holds of one whose advisor went back once."""
    record, groups = run.population.load(), run.rows(STATES)
    [(number, update, restores)] = [(group[0], group[1], group[4]) for group in groups if group[4] is not None]
    for group in groups:
        if group[0] > number and restores < group[7] <= update:
            assert (group[2], group[3]) == ("skipped", "sampled by a version that the advisor went back from")
    versions = run.rows("select version, restored from versions order by version")
    newest = record.run_state.learner
    assert [version for version, _ in versions] == list(range(newest + 1)), "versions only grow, one at a time"
    assert [pair for pair in versions if pair[1] is not None] == [(update + 1, restores)]
    assert record.admitted == sum(record.closings.values()) + len(record.leases)
    twice = "select update_number from groups where state = 'trained' group by update_number having count(*) > 1"
    assert run.rows(twice) == [], "a version was trained twice"
    if policy == "pace":
        assert record.closings["expired"] == 0
        assert run.rows("select max(staleness) from leases where state = 'trained'")[0][0] <= 2


@pytest.mark.long
@pytest.mark.fault("Learning", "answers that stop parsing: back to the last good version, as the next one")
@pytest.mark.parametrize("policy", ["pace", "soft", "drop"])
def test_a_ruined_advisor_parses_again_within_ten_groups_and_every_invariant_holds(tmp_path: Path, policy: str) -> None:
    run = life(tmp_path, staleness__policy=policy).live()
    groups = run.rows(STATES)
    back = [group for group in groups if group[4] is not None]
    assert len(back) == 1
    [(number, update, state, reason, restores, rate, *_)] = back
    assert (state, rate) == ("skipped", 1.0)
    assert f"went back to version {restores}, as version {update + 1}" in reason
    assert max(RUINING) < number < max(RUINING) + 10
    assert all(group[6] == 0 for group in groups if group[0] > max(RUINING) + 10), "it parses again"
    assert any(group[2] == "trained" for group in groups if group[0] > number), "and learns again"
    assert_promises(run, policy)
    weights = tmp_path / "versions"
    if restores:
        good = (weights / f"{restores:06d}" / "policy").read_text()
        assert (weights / f"{update + 1:06d}" / "policy").read_text() == good


@pytest.mark.fault("Learning", "without the guard a ruined advisor stays ruined")
def test_without_going_back_a_ruined_advisor_never_parses_again(tmp_path: Path) -> None:
    run = life(tmp_path, learner__rollback=False).live()
    groups = run.rows(STATES)
    assert all(group[6] == 8 for group in groups[-5:])
    assert all(group[2] == "skipped" for group in groups[-5:])


@pytest.mark.fault("Learning", "a second collapse lowers the learning rate")
def test_the_second_time_the_learning_rate_falls_and_stays_lower(tmp_path: Path) -> None:
    run = life(tmp_path, ruined_by=frozenset({7, 20})).live()
    groups = run.rows(STATES)
    first, second = (group[0] for group in groups if group[4] is not None)
    rates = {group[0]: group[5] for group in groups}
    assert {rates[number] for number in rates if number < second} == {1.0}
    assert {rates[number] for number in rates if number > second} == {SLOWER}
    assert first < 20 < second


@pytest.mark.long
@pytest.mark.fault("Learning", "killed around going back, and resumed")
@pytest.mark.parametrize("before", [False, True], ids=["after", "just before"])
def test_a_run_interrupted_around_going_back_equals_the_uninterrupted_one(tmp_path: Path, before: bool) -> None:
    def begun() -> Life:
        return life(tmp_path, ruined_by=frozenset({3}), search__threads=8, staleness__mode="sync", stop__candidates=48)

    def dump(one: Life) -> list[str]:
        return one.dump(times=False, tables=["run_states", "faults"], columns=["detail"])

    def has_gone_back(last: int) -> bool:
        return bool(begun().live(last).rows("select 1 from versions where restored is not null"))

    whole = begun().live()
    expected, health = dump(whole), whole.population.load().run_state.health
    assert health.rollbacks == 1
    gone = bisect_left(range(whole.commits), True, key=has_gone_back)
    for last in range(gone - 2, gone + 3):
        broken = begun().live(last, before=before)
        assert broken.state == "interrupted"
        assert broken.live().state == "done"
        assert dump(broken) == expected, f"commit {last}, back at {gone}"
        assert broken.population.load().run_state.health == health


@pytest.mark.fault("Learning", "killed around going back, and resumed")
@pytest.mark.parametrize(
    "before",
    [
        pytest.param(False, id="after", marks=pytest.mark.long),
        pytest.param(True, id="just before", marks=(pytest.mark.long, pytest.mark.nightly)),
    ],
)
def test_an_asynchronous_run_interrupted_around_going_back_keeps_every_invariant(tmp_path: Path, before: bool) -> None:
    """The order of events at one moment of virtual time may differ after a restart, with and without going back,
    because threads open leases while the learner has groups to skip. So the later rows may differ, but not the
    decision. A group's digest covers its rollouts, its rate and the versions that are kept for going back."""

    def begun() -> Life:
        return life(tmp_path, ruined_by=frozenset({3}), stop__candidates=72)

    def decided(one: Life) -> list[tuple[Any, ...]]:
        sql = "select group_number, update_number, state, restores, rate, digest from groups order by group_number"
        rows = one.rows(sql)
        back = next((place for place, row in enumerate(rows) if row[3] is not None), len(rows))
        return rows[: back + 1]

    def has_chosen(last: int) -> bool:
        return bool(begun().live(last).rows("select 1 from groups where restores is not null"))

    whole = begun().live()
    expected = decided(whole)
    shipped = bisect_left(range(whole.commits), True, key=has_chosen)
    for last in range(shipped - 3, shipped + 5):
        broken = begun().live(last, before=before)
        assert broken.state == "interrupted"
        assert broken.live().state == "done"
        assert decided(broken) == expected, f"commit {last}, chosen at {shipped}"
        assert broken.population.load().run_state.health.void == whole.population.load().run_state.health.void
        assert_promises(broken)


@pytest.mark.long
def test_the_advisors_health_is_the_same_from_rows(tmp_path: Path) -> None:
    run = life(tmp_path).live()
    health = run.population.load().run_state.health
    again = NO_GROUPS
    sql = """select g.group_number, g.update_number, l.oldest_version, c.outcome, g.restores from groups g
             join leases l on l.group_number = g.group_number join candidates c on c.lease = l.lease
             order by g.group_number"""
    groups: dict[int, tuple[int, dict[int, Count], int | None]] = {}
    for number, update, version, outcome, restores in run.rows(sql):
        counts = groups.setdefault(number, (update, {}, restores))[1]
        counts[version] = counts.get(version, Count()) + Count(1, outcome == "unparsed")
    for update, counts, restores in groups.values():
        again = again.after(update, counts)
        again = again if restores is None else again.back(update)
    assert again == health != Health()


@pytest.mark.long
def test_going_back_is_shown_alike_on_the_screen_and_from_rows(tmp_path: Path) -> None:
    run = life(tmp_path).live()
    record = run.population.load()
    view = run_virtually(lambda: view_of(record, run.config.stop, run.population))
    assert (view.learner.rollbacks, view.learner.undone) == (1, 0)
    assert "went back to a good version once" in "\n".join(closing_words(view, Path("run"), 0.0, None))
    ended = GroupEnded(9, 6, (1,), "skipped", "why", 7, "w", {"restored": 3.0}, 0.0, 0.0, restored=3)
    assert fold(view, ended).learner.rollbacks == 2
    steps = (replace(ended, restored=None, metrics={"step_scale": scale}) for scale in (0.0, 0.25, 1.0))
    for one in steps:
        view = fold(view, one)
    assert (view.learner.undone, view.learner.shortened) == (1, 1)
    trained = replace(ended, closing="trained", restored=None, metrics={"step_scale": 0.25})
    assert formatting.group_ended(trained, None, "pace") == "group 9 trained version 7 by a step shortened to 1/4"
    without = replace(trained, metrics={"step_scale": 1.0, "limits_off": 1.0})
    assert formatting.group_ended(without, None, "pace").endswith("that cannot be told from rounding")
