"""In every order of commits the record stays complete and correct.

A small model of a run draws legal facts at random (and sometimes an illegal one) and commits them to a real database.
Afterwards the record must equal the model.
"""

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pace_async.errors import PaceBug
from pace_async.events import Fact, ImplementerCalled, LeaseAborted, LeaseReleased, VersionPublished
from pace_async.population.checking import check_population
from pace_async.population.connect import Place
from pace_async.population.reading.questions import conservation, status
from pace_async.population.reading.reader import open_readonly
from pace_async.population.reading.replay import rules_of_run
from pace_async.population.store import Store
from pace_async.search.ideas import admit
from pace_async.search.islands import after_advice, after_evaluation, first_island
from pace_async.search.state import Island, Member, Trial
from tests.support.population_facts import (
    HEADER,
    advised,
    evaluated,
    fresh,
    opened,
    seed_program,
    shipped,
    skipped,
    trained,
)

RULES = rules_of_run(HEADER)
SEED = Member(0, "seed = 1\n", 0.9598)


@dataclass
class Model:
    """A run's state in memory. Draws come from `draw`. Every method returns facts to commit, or None."""

    draw: random.Random
    version: int = 0
    published: int = 0
    groups: int = 0
    paid: float = 0.0
    admitted: list[int] = field(default_factory=list[int])
    advised: list[int] = field(default_factory=list[int])
    complete: dict[int, int] = field(default_factory=dict[int, int])
    shipped: tuple[int, ...] = ()
    closed: dict[int, str] = field(default_factory=dict[int, str])
    island_of: dict[int, int] = field(default_factory=dict[int, int])
    sampled: dict[int, int] = field(default_factory=dict[int, int])
    chosen: dict[int, int] = field(default_factory=dict[int, int])
    islands: dict[int, Island] = field(default_factory=dict[int, Island])
    scores: dict[int, float | None] = field(default_factory=dict[int, float | None])
    leases: int = 0

    def open_lease(self) -> tuple[Fact, ...] | None:
        busy = {self.island_of[lease] for lease in (*self.admitted, *self.advised)}
        free = sorted({1, 2, 3} - busy)
        if not free:
            return None
        self.leases += 1
        island = self.draw.choice(free)
        self.islands.setdefault(island, first_island(island, SEED))
        self.admitted.append(self.leases)
        self.island_of[self.leases] = island
        return (opened(self.leases, island, self.published),)

    def advise(self) -> tuple[Fact, ...] | None:
        if not self.admitted:
            return None
        lease = self.admitted.pop(self.draw.randrange(len(self.admitted)))
        number = self.island_of[lease]
        island = self.islands[number]
        known = [idea.number for idea in island.ideas]
        verdicts = [self.draw.choice(known) if known and self.draw.random() < 0.4 else None for _ in range(2)]
        verdicts = verdicts if len(set(verdicts)) > 1 or verdicts[0] is None else [verdicts[0], None]
        pool, notes, following = admit(
            island.ideas, [f"idea of {lease}"] * 2, verdicts, island.next_idea, RULES.ideas_kept
        )
        self.islands[number] = after_advice(island, pool, following)
        self.advised.append(lease)
        self.sampled[lease] = self.published
        self.chosen[lease] = self.draw.choice(pool).number
        return (advised(lease, number, ideas=notes, idea=self.chosen[lease], version=self.published),)

    def evaluate(self) -> tuple[Fact, ...] | None:
        if not self.advised:
            return None
        lease = self.advised.pop(self.draw.randrange(len(self.advised)))
        number = self.island_of[lease]
        score = self.draw.choice([None, self.draw.uniform(2.0, 2.6)])
        fact = evaluated(lease, number, score)
        assert fact.program is not None
        self.islands[number] = after_evaluation(
            self.islands[number],
            parent=0,
            idea=self.chosen[lease],
            trial=Trial(lease, 'Change layout to "hex".', fact.outcome, score),
            member=Member(lease, fact.program, score) if score is not None else None,
            rules=RULES,
        )
        self.complete[lease] = self.sampled[lease]
        self.scores[lease] = score
        self.paid += 0.25
        return (ImplementerCalled(lease, "gemini", "ok", 10, 10, 0.25, 0.1, 1.0), fact)

    def ship(self) -> tuple[Fact, ...] | None:
        ready = [lease for lease, sampled in self.complete.items() if self.version - sampled <= HEADER.max_staleness]
        if self.shipped or len(ready) < 2:
            return None
        self.shipped = tuple(sorted(ready)[:2])
        self.groups += 1
        fact = shipped(self.groups, self.shipped, update=self.version)
        old = tuple(self.version - self.complete.pop(lease) for lease in self.shipped)
        return (replace(fact, staleness=old),)

    def end_group(self) -> tuple[Fact, ...] | None:
        if not self.shipped:
            return None
        leases, self.shipped = self.shipped, ()
        if self.draw.random() < 0.3:
            self.closed |= dict.fromkeys(leases, "skipped")
            return (skipped(self.groups, leases, update=self.version),)
        self.closed |= dict.fromkeys(leases, "trained")
        self.version += 1
        return (trained(self.groups, leases, update=self.version - 1),)

    def publish(self) -> tuple[Fact, ...] | None:
        if self.published == self.version:
            return None
        self.published = self.version
        return (VersionPublished(self.version, 0.1, 0.01, {}, 1.0),)

    def abort(self) -> tuple[Fact, ...] | None:
        if not self.admitted:
            return None
        lease = self.admitted.pop()
        self.closed[lease] = "aborted"
        return (LeaseAborted(lease, self.island_of[lease], "engine", "", 1.0),)

    def expire(self) -> tuple[Fact, ...] | None:
        old = [lease for lease, sampled in self.complete.items() if self.version - sampled > HEADER.max_staleness]
        if not old:
            return None
        del self.complete[old[0]]
        self.closed[old[0]] = "expired"
        return (LeaseReleased(old[0], "expired", 1.0),)

    def impossible(self) -> Fact:
        """A fact that contradicts whatever has happened."""
        return self.draw.choice(
            [opened(max(self.leases, 1)) if self.leases else seed_program(), VersionPublished(99, 0.1, 0.0, {}, 1.0)]
        )


STEPS = ("open_lease", "advise", "evaluate", "ship", "end_group", "publish", "abort", "expire", "impossible")
WEIGHTS = (6, 6, 6, 3, 3, 3, 1, 1, 1)


@pytest.mark.long
@pytest.mark.usefixtures("both")
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), length=st.integers(0, 60))
def test_every_legal_order_of_facts_is_recorded_as_it_happened(
    tmp_path_factory: pytest.TempPathFactory, seed: int, length: int
) -> None:
    folder = tmp_path_factory.mktemp("order")
    with open_readonly(anyio.run(_live_and_compare, folder, seed, length)) as reader:
        assert [line for check in check_population(reader) for line in check.wrong] == []


async def _live_and_compare(folder: Path, seed: int, length: int) -> Place:
    draw = random.Random(seed)
    model = Model(draw)
    async with fresh(folder) as store:
        for step in draw.choices(STEPS, WEIGHTS, k=length):
            if step == "impossible":
                with anyio.fail_after(10):
                    await _refused(store, model.impossible())
                continue
            facts = getattr(model, step)()
            if facts is not None:
                await store.commit(*facts)
        counts = await store.read(conservation)
        stated = await store.read(status)
    async with Store.open(store.place, create=False) as store:
        record = await store.load("demo")

    still_open = {*model.admitted, *model.advised, *model.complete, *model.shipped}
    closings = {way: list(model.closed.values()).count(way) for way in ("trained", "skipped", "aborted", "expired")}
    assert counts["admitted"] == model.leases == len(still_open) + len(model.closed)
    assert {way: counts[way] for way in closings} == closings == record.closings
    assert counts["admitted"] == sum(counts[state] for state in (*closings, "open"))
    assert counts["max_trained_staleness"] <= HEADER.max_staleness
    state = record.run_state
    stages = {lease: "admitted" if each.advice is None else "advised" for lease, each in state.running.items()}
    stages.update(dict.fromkeys(state.complete, "complete"))
    assert {**stages, **{rollout.lease.lease: "shipped" for rollout in state.training}} == {
        **dict.fromkeys(model.admitted, "admitted"),
        **dict.fromkeys(model.advised, "advised"),
        **dict.fromkeys(model.complete, "complete"),
        **dict.fromkeys(model.shipped, "shipped"),
    }
    assert record.leases == tuple(sorted(still_open))
    assert state.islands == model.islands
    assert (state.learner, state.served, state.last_lease) == (model.version, model.published, model.leases)
    assert (state.shipped.leases if state.shipped else ()) == model.shipped
    assert (record.groups, state.groups) == (model.groups - bool(model.shipped), model.groups)
    assert record.spend_usd == stated["spend_usd"] == model.paid
    assert stated["candidates"] == record.candidates == len(model.scores)
    scored = [score for score in model.scores.values() if score is not None]
    assert stated["best_score"] == max([*scored, SEED.score])
    return store.place


async def _refused(store: Store, fact: Fact) -> None:
    try:
        await store.commit(fact)
    except PaceBug:
        return
    raise AssertionError(f"{fact} was accepted")
