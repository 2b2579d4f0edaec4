"""A run followed by its journal alone shows what the run's own screen shows."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection

from pace_async.config import StopConfig
from pace_async.events import (
    Advised,
    EpochInForce,
    Evaluated,
    Fact,
    FaultSeen,
    LeaseOpened,
    RescoreBegan,
    RunHeader,
    RunStateChanged,
    SettingChanged,
)
from pace_async.observe.base import Event
from pace_async.observe.bus import Bus
from pace_async.observe.fold import fold
from pace_async.observe.followed import Followed, cut_off
from pace_async.observe.model import RunView
from pace_async.observe.watching import Source
from pace_async.population.memory import MemoryPopulation
from pace_async.population.reading.following import Following, facts_of
from pace_async.population.reading.journal import JournalEntry
from pace_async.population.reading.progress import improvements_of
from pace_async.population.reading.reader import Reader, open_readonly
from pace_async.population.store import Store
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import SimulatedFaults, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import VirtualClock, run_virtually
from tests.support.catalogues import with_sites
from tests.support.observe_facts import BEGIN, fold_all, life
from tests.support.population_facts import HEADER, empty_population, rescored
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import REACH, SEARCH, durations

STOP = StopConfig(candidates=24)
RUN = replace(HEADER, config={**HEADER.config, "stop": {"candidates": 24}})


async def entries(tmp_path: Path, facts: list[Fact]) -> list[JournalEntry]:
    """The facts as a follower gets them."""
    async with Store.open(empty_population(tmp_path)) as store:
        run_id = await store.create_run(RUN)
        await store.commit(*facts)
        return await store.read(lambda connection: list(facts_of(connection, run_id)))


async def views(tmp_path: Path, facts: list[Fact]) -> list[RunView]:
    """The view after each fact."""
    followed, found = Followed(RUN), list[RunView]()
    for entry in await entries(tmp_path, facts):
        followed.take(entry.fact)
        found.append(followed.view)
    return found[1:]  # the first is that of the header


def kept(view: RunView) -> RunView:
    """What facts tell of a view: all but the note of the last event, and the stages, which are inferred."""
    return replace(view, latest=None, threads={}, learner=replace(view.learner, stage="waiting"))


@pytest.mark.parametrize("seed", [0, 3])
async def test_at_every_commit_the_view_of_a_follower_is_the_one_on_the_runs_screen(tmp_path: Path, seed: int) -> None:
    facts = list(life(seed, rollouts=12))
    view = RunView(RUN, STOP)
    for fact, followed in zip(facts, await views(tmp_path, facts), strict=True):
        view = fold(view, fact)
        assert kept(followed) == kept(view), fact


async def test_an_ended_run_has_an_end_and_a_killed_one_ends_with_its_last_fact(tmp_path: Path) -> None:
    [*_, before, after] = await views(tmp_path, [*life(1), RunStateChanged("done", "candidates", BEGIN + 500)])
    assert after.ended_at == BEGIN + 500
    assert after.reason == "stop rule candidates met"
    assert before.ended_at is None
    assert cut_off(before).elapsed(BEGIN + 10_000) == before.last_at - BEGIN


async def test_what_a_resume_changed_is_on_the_screen(tmp_path: Path) -> None:
    changes: list[Fact] = [
        SettingChanged("stop.candidates", "24", "60", BEGIN + 400),
        SettingChanged("implementer.model", '"catalog"', '"other"', BEGIN + 400),
    ]
    view = (await views(tmp_path, [*life(1), *changes]))[-1]
    assert (view.stop.candidates, view.header.implementer) == (60, "other")
    assert view.header.config["stop"] == {"candidates": 60}


async def test_a_stage_that_fails_and_a_pause_are_on_the_screen_until_they_end(tmp_path: Path) -> None:
    down = FaultSeen("evaluate", "stage_paused", "no disk", None, BEGIN + 400)
    up = FaultSeen("evaluate", "stage_back", "", None, BEGIN + 401)
    [*_, failing, back] = await views(tmp_path, [*life(1), down, up])
    assert failing.failing == {"evaluate": "no disk"}
    assert not back.failing


async def test_every_improvement_has_a_note_however_many_candidates_came_after_it(tmp_path: Path) -> None:
    facts = list(life(2, rollouts=90))
    followed = Followed(RUN)
    notes = [followed.take(entry.fact) for entry in await entries(tmp_path, facts)]
    best = [note for note in notes if note is not None and note.kind == "best"]
    direct = fold_all(RunView(RUN, STOP), facts)
    assert len([fact for fact in facts if isinstance(fact, Evaluated) and fact.lease]) > len(direct.notes)
    assert len(best) == len(direct.improvements) - 1  # the task's own program has a note of another kind


async def test_a_follower_gets_each_fact_once_from_where_it_begins_and_reads_nothing_between_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read = list[int](), Reader.facts

    def counted(
        reader: Reader, after: int = 0, run: str | None = None, *, texts: bool = False
    ) -> Iterator[JournalEntry]:
        reads.append(after)
        return read(reader, after, run, texts=texts)

    monkeypatch.setattr(Reader, "facts", counted)
    place, facts = empty_population(tmp_path), list(life(1))
    async with Store.open(place) as store:
        await store.create_run(RUN)
        await store.commit(*facts[:10])
        with open_readonly(place, RUN.name) as reader:
            begun, late = Following(reader), Following(reader, after=7)
            assert [entry.seq for entry in begun.news()] == list(range(1, 12))
            assert [entry.seq for entry in late.news()] == list(range(8, 12))
            assert list(begun.news()) == list(late.news()) == []
            assert reads == [0, 7]
            await store.commit(*facts[10:])
            new = list(begun.news())
            assert [entry.fact.at for entry in new if not isinstance(entry.fact, RunHeader)] == [
                fact.at for fact in facts[10:]
            ]
            assert list(late.news()) == new
            assert reads == [0, 7, 11, 11]


async def test_after_another_evaluator_scored_the_candidates_a_follower_shows_its_scores(tmp_path: Path) -> None:
    facts = [fact for fact in life(1) if not isinstance(fact, LeaseOpened | Advised) or fact.lease < 23]
    place, scores = empty_population(tmp_path), {0: 1.0, 1: 9.0}
    async with Store.open(place) as store:
        await store.create_run(RUN)
        await store.commit(*facts)
        with open_readonly(place, RUN.name) as reader:
            source = Source(reader, lambda: (True, ""), None)
            before = source.look().view
            new = [rescored(candidate, score) for candidate, score in scores.items()]
            await store.commit(RescoreBegan(1, "mended", None, 7000.0), *new, EpochInForce(1, 22, 7002.0))
            looked = source.look()
            again = Source(reader, lambda: (True, ""), None).look().view
            [*_, best] = reader.ask(improvements_of)
    assert before.best is not None and before.best.score < 9.0
    assert looked.view == again and looked.notes == ()
    assert again.best is not None and again.seed_score == 1.0
    assert (again.best.candidate, again.best.score) == (best.candidate, best.score) == (1, 9.0)
    assert again.outcomes["ok"] == 1


class Screened(Bus):
    """Keeps the view that the run's own screen had after each fact, transient events folded in as they came."""

    def __init__(self, view: RunView) -> None:
        super().__init__(view)
        self.shown: list[RunView] = []

    def publish(self, event: Event) -> None:
        super().publish(event)
        if isinstance(event, Fact):
            self.shown.append(self.view)


FAULTS: dict[str, tuple[dict[str, object], SimulatedFaults]] = {
    "lost rollouts": ({}, SimulatedFaults(reach=REACH, lost=frozenset({5, 9, 10}))),
    "discarded groups": ({"staleness__mode": "sync"}, SimulatedFaults(reach=REACH, discard_every=2)),
    "going back": (
        {"learner__rollback": True, "stop__candidates": 80},
        SimulatedFaults(reach=REACH, ruined_by=frozenset({2})),
    ),
    "untrained": ({"learner__objective": "none"}, SimulatedFaults(reach=REACH, lost=frozenset({5, 9, 10}))),
}


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_from_every_fact_of_a_run_with_faults_a_follower_has_the_view_of_its_screen(name: str, tmp_path: Path) -> None:
    """It begins to read anew at each, and gets the same facts as one that reads the whole."""
    changed, faults = FAULTS[name]
    config = settings(**{**SEARCH, "seed": 3, "stop__candidates": 32, **changed})
    task = with_sites(tmp_path)
    header, seed = header_of(config, task), seed_program(task)
    population = MemoryPopulation(header, with_journal=True)
    world = World(seed=3, durations=durations(3))
    world.serve(0, None)
    screen = Screened(fold(Followed(header).view, seed))

    async def process() -> tuple[list[JournalEntry], list[JournalEntry]]:
        await population.commit(seed)
        run = SimulatedRun(config, task, VirtualClock(), world, tmp_path, faults, Bytes())
        core = run.core(population.load(), population)
        core.bus = core.recorder.bus = screen
        assert await drive(core) == "done"

        def read(connection: Connection) -> tuple[list[JournalEntry], list[JournalEntry]]:
            whole = list(facts_of(connection, population.run_id))
            return whole, [next(facts_of(connection, population.run_id, seq)) for seq in range(len(whole))]

        return await population.read(read)

    whole, one_by_one = run_virtually(process)
    assert [entry.seq for entry in whole] == list(range(1, len(screen.shown) + 3))  # after the header and the seed
    assert one_by_one == whole
    followed, taken_up = Followed(header), list[Followed]()
    for entry in one_by_one:
        followed.take(entry.fact)
        if entry.seq > 2:
            assert kept(followed.view) == kept(screen.shown[entry.seq - 3]), entry
        from_it = Followed.of(followed.encoding()())
        assert (from_it.view, from_it.shown) == (followed.view, followed.shown)
        if entry.seq % 5 == 0:
            taken_up.append(from_it)
        for one in taken_up:  # goes on as the first does
            if one is not from_it:
                one.take(entry.fact)
    for one in taken_up:
        assert (one.view, one.shown) == (followed.view, followed.shown)
    view = followed.view
    assert view.state == "done" and view.faults + view.learner.skipped + view.learner.rollbacks > 0
