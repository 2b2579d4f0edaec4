"""A run followed from its rows alone shows what the run's own screen shows."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection

from pace_async.config import StopConfig
from pace_async.events import Evaluated, Fact, FaultSeen, RunStateChanged, SettingChanged
from pace_async.observe.fold import fold_all
from pace_async.observe.followed import cut_off, notes_at, view_at
from pace_async.observe.ledger import Ledger
from pace_async.observe.model import GROUPS_KEPT, NOTES_KEPT, TIMES_KEPT, RunView
from pace_async.population.reading.moment import Moment, moment_of
from pace_async.population.store import Store
from tests.support.observe_facts import BEGIN, life
from tests.support.population_facts import HEADER, empty_population

pytestmark = pytest.mark.anyio
STOP = StopConfig(candidates=24)
RUN = replace(HEADER, config={**HEADER.config, "stop": {"candidates": 24}})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def moment(connection: Connection) -> Moment:
    return moment_of(connection, "demo", kept=NOTES_KEPT, times_kept=TIMES_KEPT, groups_kept=GROUPS_KEPT)


async def after_some(tmp_path: Path, *commits: list[Fact]) -> list[Moment]:
    """The moment after each commit."""
    found: list[Moment] = []
    async with Store.open(empty_population(tmp_path)) as store:
        await store.create_run(RUN)
        for facts in commits:
            await store.commit(*facts)
            found.append(await store.read(moment))
    return found


def kept(view: RunView) -> RunView:
    """What rows keep of a view, and what does not depend on the way it was made."""
    metrics = {name: value for name, value in view.learner.metrics.items() if name in ("loss", "entropy", "grad_norm")}
    threads = {island: stage for island, stage in view.threads.items() if stage != "waiting"}
    return replace(
        view,
        latest=None,
        ledger=Ledger(),
        learner=replace(view.learner, paused_seconds=None, stage="waiting", metrics=metrics),
        threads={island: "evaluate" if stage == "implement" else stage for island, stage in threads.items()},
        last_at=0.0,
        causes={},
    )


@pytest.mark.parametrize("seed", [0, 3])
async def test_at_every_commit_the_view_of_the_rows_is_the_one_on_the_runs_screen(tmp_path: Path, seed: int) -> None:
    facts = list(life(seed, rollouts=12))
    view = RunView(RUN, STOP)
    for fact, found in zip(facts, await after_some(tmp_path, *([fact] for fact in facts)), strict=True):
        view = fold_all(view, [fact])
        assert kept(view_at(found)) == kept(view), fact


async def test_an_ended_run_has_an_end_and_a_killed_one_ends_with_its_last_row(tmp_path: Path) -> None:
    done = RunStateChanged("done", "candidates", BEGIN + 500)
    [before, after] = await after_some(tmp_path, [*life(1)], [done])
    assert view_at(after).ended_at == BEGIN + 500
    assert view_at(after).reason == "stop rule candidates met"
    assert view_at(before).ended_at is None
    assert cut_off(view_at(before)).elapsed(BEGIN + 10_000) == before.last_at - BEGIN


async def test_what_a_resume_changed_is_on_the_screen(tmp_path: Path) -> None:
    facts = [*life(1), SettingChanged("stop.candidates", "24", "60", BEGIN + 400)]
    assert view_at((await after_some(tmp_path, facts))[0]).stop.candidates == 60


async def test_a_stage_that_fails_and_a_pause_are_on_the_screen_until_they_end(tmp_path: Path) -> None:
    down = FaultSeen("evaluate", "stage_paused", "no disk", None, BEGIN + 400)
    up = FaultSeen("evaluate", "stage_back", "", None, BEGIN + 401)
    [_, failing, back] = await after_some(tmp_path, [*life(1)], [down], [up])
    assert view_at(failing).failing == {"evaluate": "no disk"}
    assert not view_at(back).failing


async def test_every_improvement_has_a_note_however_many_candidates_came_after_it(tmp_path: Path) -> None:
    facts = list(life(2, rollouts=90))
    [found] = await after_some(tmp_path, facts)
    best = [note for note in notes_at(found) if note.kind == "best"]
    direct = fold_all(RunView(RUN, STOP), facts)
    candidates = [fact.lease for fact in facts if isinstance(fact, Evaluated) and fact.lease]
    assert len(candidates) > NOTES_KEPT
    assert len(best) == len(direct.improvements) - 1  # the task's own program has a note of another kind
