"""The state of a running run is, after each of its commits, the state that a resume would fold from its journal. At its
end it is also the state that its facts give one by one, those of the journal and those inferred from the rows."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Connection, delete

from pace_async.config import Config
from pace_async.context.value import Context, context_of
from pace_async.events import Advised, AdvisorCall, Evaluated, Fact, ImplementerCalled, RunHeader
from pace_async.population.blobs import pack_logprobs, unpack_logprobs
from pace_async.population.checking import check_journal, import_journal
from pace_async.population.journal.states import encoding_of
from pace_async.population.memory import MemoryPopulation
from pace_async.population.models import BlobRow, JournalRow
from pace_async.population.reading.journal import entries_of, last_seq
from pace_async.population.reading.replay import scored_of
from pace_async.population.writing.write_people import NewEntry, inserted
from pace_async.population.writing.write_snapshots import snapshot_kept, snapshots_removed
from pace_async.runtime.run.recorder import Recorder
from pace_async.runtime.run.work import unfinished
from pace_async.runtime.start.restore import restore
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import SimulatedFaults, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import VirtualClock, run_virtually
from pace_async.state.apply import apply
from pace_async.state.run_state import RunState
from pace_async.task import load_task
from tests.doubles.implementers import NotesChat
from tests.support.catalogues import with_sites
from tests.support.changed_stages import change_stages
from tests.support.comparing_states import differences
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import REACH, SEARCH, durations

SPEC = load_task("circle_packing").spec
APART = 18
"""Comparisons between two snapshots."""


def contexts(state: RunState) -> list[Context]:
    """What the next rollout of each island would be told, on its best program."""
    return [context_of(state, SPEC, island, island.members[0], 5) for _, island in sorted(state.islands.items())]


@dataclass(slots=True)
class Comparing(Recorder):
    """Folds the journal anew after each commit, once no other one is under way."""

    config: Config | None = None
    under_way: int = 0
    compared: int = 0
    based: int = 0
    from_snapshots: int = 0
    snapshot: tuple[int, bytes] = (0, b"")
    recorded: list[Fact] = field(default_factory=list[Fact])
    people: Random | None = None

    async def said(self) -> None:
        """People say something of a candidate, or write a page, after some commits."""
        if self.people is None or self.people.random() < 0.75:
            return
        number, text = self.people.randrange(self.state.last_lease + 2), self.people.choice(("ban", "ban", "pin", ""))
        new = NewEntry(text, subject="candidate", number=number)
        if self.people.random() < 0.2:
            new = NewEntry(f"page {number}", subject="note")
        await self.population.read(lambda connection: inserted(connection, 1, new))

    def is_of_another(self, advised: Advised) -> bool:
        """Whether the parent is a program of another island that was not lent to the lease."""
        own = {member.candidate for member in self.state.islands[advised.island].members}
        migrant = self.state.running[advised.lease].migrant
        return advised.parent not in own | ({migrant.candidate} if migrant is not None else set())

    def assert_parents_are_known(self, folded: RunState) -> None:
        """A resume goes on with the parent of every decided lease, and with its program."""
        scored = {fact.lease: fact for fact in self.recorded if isinstance(fact, Evaluated)}
        for work in unfinished(folded):
            advice = self.state.running[work.lease.lease].advice
            assert (work.decision is None) == (advice is None)
            if work.decision is not None and advice is not None:
                parent = work.decision.parent
                assert parent.candidate == advice.parent
                assert parent.candidate == 0 or parent.program == scored[advice.parent].program

    async def folded(self, population: MemoryPopulation, config: Config) -> RunState:
        """What a resume folds: in turns from all facts, and from those after a snapshot, of which there is a new one at
        every comparison whose number is APART times another and 1."""
        if self.compared % 2:
            whole = population.load()
            if self.compared % APART == 1 and not self.state.claimed.openings:
                seq = await population.read(lambda connection: last_seq(connection, population.run_id))
                self.snapshot = seq, encoding_of(self.state)()
            return restore(whole, config)
        seq, state = self.snapshot
        if seq == 0:
            return restore(population.load(), config)
        await population.read(lambda connection: snapshot_kept(connection, population.run_id, seq, 0.0, state, b""))
        self.from_snapshots += 1
        taken_up = restore(population.load(), config)
        await population.read(lambda connection: snapshots_removed(connection, population.run_id))
        return taken_up

    async def record(self, *facts: Fact) -> None:
        self.under_way += 1
        self.based += sum(isinstance(fact, Advised) and self.is_of_another(fact) for fact in facts)
        try:
            await Recorder.record(self, *facts)
            self.recorded += facts
            await self.said()
        finally:
            self.under_way -= 1
        assert isinstance(self.population, MemoryPopulation) and self.config is not None
        if not self.under_way:
            self.compared += 1
            folded = await self.folded(self.population, self.config)
            assert differences(self.state, folded) == [], facts
            self.assert_parents_are_known(folded)
            if self.state.memory.active:
                assert contexts(self.state) == contexts(folded), facts


LONGER: dict[str, object] = {"stop__candidates": 24}
"""Until several views have been covered, and several answers have named bases."""
RUNS: dict[str, tuple[dict[str, object], SimulatedFaults]] = {
    "async": ({"search__parents": "puct"}, SimulatedFaults(reach=REACH, discard_every=2)),
    "sync": ({"staleness__mode": "sync"}, SimulatedFaults(reach=REACH)),
    "soft": ({"staleness__policy": "soft", "search__memory_mb": 1}, SimulatedFaults(reach=REACH)),
    "drop": ({"staleness__policy": "drop", "staleness__max_staleness": 1}, SimulatedFaults(reach=REACH)),
    "bandit": ({"advisor__model": "bandit"}, SimulatedFaults(reach=REACH, lost=frozenset({5, 9, 10}))),
    "the run remembered": ({"search__memory": "run", "search__parents": "puct"}, SimulatedFaults(reach=REACH)),
    "islands remembered": ({"search__memory": "island", "advisor__calls": "one"}, SimulatedFaults(reach=REACH)),
    "remembered untrained": (
        {"learner__objective": "none", "search__memory": "run", "advisor__calls": "one"},
        SimulatedFaults(reach=REACH, lost=frozenset({5, 9, 10})),
    ),
    "one call behind a barrier": (
        {"staleness__mode": "sync", "search__memory": "run", "advisor__calls": "one", **LONGER},
        SimulatedFaults(reach=REACH, lost=frozenset({5, 9})),
    ),
    "notes": (
        {"search__memory": "run", "search__notes_every": 3, "learner__group_size": 4},
        SimulatedFaults(reach=REACH, lost=frozenset({5, 9, 10})),
    ),
    "notes behind a barrier": (
        {
            "search__memory": "run",
            "search__notes_every": 3,
            "staleness__mode": "sync",
            "search__threads": 4,
            "learner__group_size": 4,
        },
        SimulatedFaults(reach=REACH, discard_every=2),
    ),
    "notes untrained": (
        {"search__memory": "run", "search__notes_every": 5, "learner__objective": "none"},
        SimulatedFaults(reach=REACH),
    ),
    "words of people": (
        {
            "search__memory": "run",
            "advisor__calls": "one",
            "learner__objective": "none",
            "search__parents": "puct",
            **LONGER,
        },
        SimulatedFaults(reach=REACH, lost=frozenset({5, 9, 10})),
    ),
    "words of people, islands remembered": ({"search__memory": "island"}, SimulatedFaults(reach=REACH)),
    "words of people behind a barrier": (
        {"staleness__mode": "sync", "search__memory": "run", "advisor__calls": "one", **LONGER},
        SimulatedFaults(reach=REACH, lost=frozenset({5, 9})),
    ),
    "words of people to a catalogue": ({"staleness__mode": "sync"}, SimulatedFaults(reach=REACH)),
    "going back": ({"learner__rollback": True}, SimulatedFaults(reach=REACH, ruined_by=frozenset({2}))),
}


def as_stored(fact: Fact) -> Fact:
    """The fact with the log-probabilities that a blob keeps, which are float32."""

    def rounded(call: AdvisorCall) -> AdvisorCall:
        return replace(call, logprobs=unpack_logprobs(pack_logprobs(call.logprobs)))

    if isinstance(fact, Advised):
        return replace(fact, calls=tuple(rounded(call) for call in fact.calls))
    if isinstance(fact, ImplementerCalled) and fact.answered is not None:
        return replace(fact, answered=rounded(fact.answered))
    return fact


def forget_journal(connection: Connection) -> None:
    """Make the run one of a version without a journal."""
    connection.execute(delete(JournalRow))
    connection.execute(delete(BlobRow))


LONGER_RUNS = frozenset({"the run remembered", "notes untrained", "going back"})
FEW = frozenset({"async", "sync"})
"""Not long, in the sense of `make test`: they have a fact of most kinds."""
MOST = FEW | {"words of people", "soft", "drop", "bandit", "islands remembered", "notes", "going back"}
"""Not nightly: the others put together what these have apart."""


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [mark for few, mark in ((FEW, pytest.mark.long), (MOST, pytest.mark.nightly)) if name not in few]


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in RUNS])
def test_after_every_commit_the_facts_fold_to_the_live_state(name: str, tmp_path: Path) -> None:
    changed, faults = RUNS[name]
    config = settings(**{**SEARCH, "seed": 3, "stop__candidates": 24 if name in LONGER_RUNS else 18, **changed})
    task = with_sites(tmp_path)
    header, seed, spec = header_of(config, task), seed_program(task), task.spec
    population = MemoryPopulation(header, with_journal=True)
    world = World(seed=3, durations=durations(3))
    world.serve(0, None)
    compared, noted, covered, based = list[int](), list[int](), list[int](), list[int]()
    from_snapshots = list[int]()

    async def process() -> None:
        await population.commit(seed)
        record = population.load()
        followed, inferred = restore(population.load(), config), restore(population.load(), config)
        core = SimulatedRun(config, task, VirtualClock(), world, tmp_path, faults, Bytes()).core(record, population)
        plain = core.recorder
        people = Random(3) if name.startswith("words") else None
        core.recorder = Comparing(plain.population, plain.state, plain.bus, config=config, people=people)
        core.inbox_waits = people is not None
        if config.search.notes_every:
            change_stages(core, notes=NotesChat(seconds=40.0).writer(core))
        assert await drive(core) == "done"
        compared.append(core.recorder.compared)
        based.append(core.recorder.based)
        from_snapshots.append(core.recorder.from_snapshots)
        noted.append(len(core.state.notes))
        covered.append(sum(len(view.covered) for view in core.state.memory.views.values()))
        entries = await population.read(lambda connection: list(entries_of(connection, population.run_id)))
        facts = [entry.fact for entry in entries]
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        assert facts == [header, *(as_stored(fact) for fact in (seed, *core.recorder.recorded))]
        numbers = range(core.state.last_lease + 1)
        named = await population.read(lambda connection: scored_of(connection, 1, numbers, spec.fitness))
        followed.claimed.named = inferred.claimed.named = named
        for fact in facts[2:]:
            assert not isinstance(fact, RunHeader)
            apply(followed, fact)
        assert differences(core.state, followed) == []
        check = await population.read(lambda connection: check_journal(connection, population.run_id, "journal"))
        assert check.wrong == () and check.found.startswith(f"{len(facts)} facts")
        await population.read(forget_journal)
        assert differences(core.state, restore(population.load(), config)) == []
        await population.read(lambda connection: import_journal(connection, population.run_id))
        check = await population.read(lambda connection: check_journal(connection, population.run_id, "journal"))
        assert check.wrong == () and check.found.startswith(f"{len(facts)} facts")
        for entry in await population.read(lambda connection: list(entries_of(connection, population.run_id, 2))):
            assert not isinstance(entry.fact, RunHeader)
            apply(inferred, entry.fact)
        assert differences(core.state, inferred) == []

    run_virtually(process)
    assert compared[0] > 45 and from_snapshots[0] > 18
    assert (noted[0] > 1) == (config.search.notes_every > 0)
    assert (covered[0] > 1) == (changed.get("advisor__calls") == "one")
    assert (based[0] > 1) == (changed.get("advisor__calls") == "one" and config.search.memory == "run")
