"""A population of any size with the rows that a real run leaves, written as facts by the population's own writer.

Each candidate has its lease, the advisor's three calls with their tokens, ideas, an experiment, a reserved and paid
implementer call with its try, and an evaluation. Groups of eight train versions, some are skipped, some leases abort.
The same size and seed give the same rows. Nothing is run: no process, no event loop.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.events import (
    Advised,
    AdvisorCall,
    Evaluated,
    Fact,
    FaultSeen,
    GroupEnded,
    GroupShipped,
    IdeaNote,
    ImplementerCalled,
    ImplementerReserved,
    ImplementerTry,
    LeaseAborted,
    LeaseOpened,
    Outcome,
    Purpose,
    RunHeader,
    RunStateChanged,
    TokenSpan,
    VersionPublished,
)
from pace_async.population.connect import Place, engine
from pace_async.population.schema import upgrade
from pace_async.population.writing.scope import scope_of
from pace_async.population.writing.write_run import run_created
from pace_async.population.writing.writes import write
from pace_async.search.ideas import Pool, admit

THREADS = 16
GROUP = 8
BOUND = 2
PROMPT_TOKENS, ANSWER_TOKENS = 1500, 120
LINES = 70
BATCH = 500
"""Candidates in one transaction."""
PURPOSES: tuple[Purpose, ...] = ("propose", "assess", "select")
FAILURES: tuple[Outcome, ...] = ("candidate_error", "timeout", "unparsed")


def config() -> Config:
    """The configuration of the run."""
    settings = {
        "seed": 7,
        "search.threads": THREADS,
        "learner.group_size": GROUP,
        "staleness.max_staleness": BOUND,
        "search.backtracking": False,
    }
    return resolve(None, settings, environment={})


def header() -> RunHeader:
    """The header of the run."""
    return RunHeader(
        name="large",
        task="circle_packing",
        task_digest="large",
        seed=7,
        objective="pace",
        advisor="tiny",
        engine="embedded",
        implementer="catalog",
        sandbox="bubblewrap",
        threads=THREADS,
        group_size=GROUP,
        max_staleness=BOUND,
        horizon=20,
        lower=0.0,
        upper=1.0,
        direction="maximize",
        config=config().model_dump(mode="json"),
    )


def fill(place: Place, candidates: int, *, prompt_tokens: int = PROMPT_TOKENS, lines: int = LINES) -> None:
    """Make the database and write a run of that many leases into it."""
    upgrade(place)
    writer = engine(place, "write")
    try:
        with writer.connect() as connection:
            with connection.begin():
                scope = scope_of(connection, run_created(connection, header(), "none", 0.0), header())
            for facts in _batches(candidates, prompt_tokens, lines):
                with connection.begin():
                    for fact in facts:
                        write(scope, fact)
        if writer.dialect.name == "postgresql":
            with writer.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                connection.exec_driver_sql("VACUUM ANALYZE")  # the server does this itself during a run
    finally:
        writer.dispose()


def _batches(candidates: int, prompt_tokens: int, lines: int) -> Iterator[list[Fact]]:
    run = _Run(prompt_tokens, lines)
    batch: list[Fact] = [*run.begin()]
    for lease in range(1, candidates + 1):
        batch += run.rollout(lease)
        if lease % BATCH == 0:
            yield batch
            batch = []
    yield [*batch, RunStateChanged("interrupted", "", float(candidates + 1))]


@dataclass(slots=True)
class _Run:
    prompt_tokens: int
    lines: int
    draw: Random = field(default_factory=lambda: Random(7))
    pools: dict[int, tuple[Pool, int]] = field(default_factory=dict[int, tuple[Pool, int]])
    best: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])
    complete: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    version: int = 0
    groups: int = 0

    def begin(self) -> Iterator[Fact]:
        yield RunStateChanged("running", "", 0.0)
        yield Evaluated(0, 0, None, self._program(0), "0", "ok", "", 0.0, 0.0, {"circles": 26.0}, 0.1, False, None, 0.0)

    def rollout(self, lease: int) -> Iterator[Fact]:
        """The facts of one lease, and of the group that it completes."""
        island, now, draw = 1 + lease % THREADS, float(lease), self.draw
        yield LeaseOpened(lease, island, self.version + BOUND, self.version, now)
        if lease % 97 == 0:
            yield FaultSeen("advise", "engine_error", "no answer", lease, now)
            yield LeaseAborted(lease, island, "engine_error", "no answer", now)
            return
        _, parent = max(draw.choice(self.best), draw.choice(self.best))
        pool, next_idea = self.pools.get(island, ((), 1))
        said = [f"a change number {draw.randrange(10**6)} of the layout helps" for _ in PURPOSES]
        known = [idea.number for idea in pool[-2:]]
        verdicts = [None, *known, None, None][: len(said)]
        pool, notes, next_idea = admit(pool, said, verdicts, next_idea, 5)
        self.pools[island] = pool, next_idea
        yield Advised(lease, island, parent, self._calls(), tuple(notes), _newest(notes), "Change layout.", now + 0.1)
        yield ImplementerReserved(lease - lease // 97, lease, "model", 0.01, now + 0.1)
        program = self._program(lease)
        tried = ImplementerTry(1, "model", "ok", "", program, None)
        reservation = lease - lease // 97
        yield ImplementerCalled(lease, "model", "ok", 3000, 900, 0.004, 2.0, now + 0.2, reservation, tried)
        failed = draw.random() < 0.25
        score = None if failed else self.best[-1][0] + draw.gauss(-0.02, 0.008) * (1 - self.best[-1][0])
        outcome: Outcome = draw.choice(FAILURES) if failed else "ok"
        reward = -1.0 if score is None else 3.0 * score
        yield Evaluated(
            *(lease, island, parent, program, f"{lease:032x}", outcome, "", score, reward, {"circles": 26.0}),
            *(0.7, False, "layout", now + 0.9),
        )
        if score is not None and score > self.best[0][0]:
            self.best = sorted([*self.best, (score, lease)])[-16:]
        self.complete.append((lease, reward))
        if len(self.complete) == GROUP:
            yield from self._group(now + 0.95)

    def _group(self, now: float) -> Iterator[Fact]:
        leases, rewards = zip(*self.complete, strict=True)
        self.complete, self.groups, update = [], self.groups + 1, self.version
        number, trains = self.groups, self.groups % 19 > 0
        advantages = tuple(reward - sum(rewards) / GROUP for reward in rewards)
        yield GroupShipped(
            *(number, update, leases, (0,) * GROUP, rewards, advantages, 0.5, f"{number:064x}", now),
        )
        metrics = {"loss": 0.1, "entropy": 2.0, "ess": 0.99, "k3": 0.001, "tokens_age_0": 2880.0, "ess_age_0": 0.99}
        yield GroupEnded(
            *(number, update, leases, "trained" if trains else "skipped", "" if trains else "the group collapsed"),
            *(update + trains, f"learner/{update + 1}" if trains else None, metrics if trains else {}, 1.0, now),
        )
        if trains:
            self.version += 1
            yield VersionPublished(self.version, 0.4, 0.05, {"weights": "ab"}, now)

    def _calls(self) -> tuple[AdvisorCall, ...]:
        prompt, answer = tuple(range(self.prompt_tokens)), tuple(range(ANSWER_TOKENS))
        spans, text = (TokenSpan(self.version, 0, ANSWER_TOKENS),), "Idea 1: spread the circles\n" * 12
        logprobs = (-1.5,) * ANSWER_TOKENS
        return tuple(AdvisorCall(purpose, prompt, answer, logprobs, spans, text, 0.5) for purpose in PURPOSES)

    def _program(self, lease: int) -> str:
        line = "    radii = [min(x, y, 1 - x, 1 - y) for x, y in centres]  # what the walls leave\n"
        return f"def solve(instance):\n    step = {lease}\n" + line * self.lines


def _newest(notes: tuple[IdeaNote, ...]) -> int:
    return max(note.number for note in notes)
