"""Facts for the population's tests: short to write, every field set to something that can be told apart."""

import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config

from pace_async.events import (
    Advised,
    AdvisorCall,
    Evaluated,
    Fact,
    GroupEnded,
    GroupShipped,
    IdeaNote,
    LeaseOpened,
    Rescored,
    RunHeader,
    TokenSpan,
)
from pace_async.population import schema
from pace_async.population.connect import Place, engine, locate
from pace_async.population.schema import migrations_folder
from pace_async.population.store import Store
from tests.support.postgres import PostgresServer

HEADER = RunHeader(
    name="demo",
    task="circle_packing",
    task_digest="d1ce",
    seed=7,
    objective="pace",
    advisor="tiny",
    engine="embedded",
    implementer="catalog",
    sandbox="bubblewrap",
    threads=2,
    group_size=2,
    max_staleness=2,
    horizon=20,
    lower=2.3,
    upper=2.636,
    direction="maximize",
    config={"search": {"ideas_kept": 3}, "seed": 7},
)
SECRET = "a secret of tests"
MINIMISING = replace(HEADER, direction="minimize")


BOTH = ("sqlite", "postgresql")
_server: ContextVar[PostgresServer | None] = ContextVar("server", default=None)


@contextmanager
def populations_on(server: PostgresServer | None) -> Generator[None]:
    """Within, populations are databases on that server instead of files."""
    before = _server.set(server)
    try:
        yield
    finally:
        _server.reset(before)


@contextmanager
def populations_of(request: pytest.FixtureRequest) -> Generator[None]:
    """Within, populations are where the parameter of a fixture says, which is one of `BOTH`."""
    with populations_on(request.getfixturevalue("postgres") if request.param == "postgresql" else None):
        yield


@cache
def _template() -> bytes:
    """What a file without a run holds, which takes a tenth of a second to make."""
    with tempfile.TemporaryDirectory() as folder:
        MIGRATE(Path(folder) / "population.db", "head")
        return (Path(folder) / "population.db").read_bytes()


MIGRATE = schema._migrate  # pyright: ignore[reportPrivateUsage]
"""Goes through all revisions, which takes a fifth of a second."""


def made_once(place: Place, revision: str) -> None:
    """`MIGRATE`, but a new file is a copy of one that is made once for a whole process of tests."""
    if revision == "head" and isinstance(place, Path) and not place.exists():
        with suppress(OSError):  # what there is no room for is left to SQLite, which says so in its own way
            place.write_bytes(_template())
            return
        place.unlink(missing_ok=True)
    MIGRATE(place, revision)


def empty_population(folder: Path) -> Path:
    """A population without a run, as a copy of one that is made once for a whole process of tests."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "population.db").write_bytes(_template())
    return folder / "population.db"


def empty_place(folder: Path) -> Place:
    """The same in a file in `folder`, or wherever populations are."""
    server = _server.get()
    return locate(server.new() if server is not None else empty_population(folder))


def downgrade(database: Place, revision: str) -> None:
    """Take a population back to an older schema."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    writer = engine(database, "migrate")
    with writer.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)
    writer.dispose()


@asynccontextmanager
async def fresh(folder: Path, header: RunHeader = HEADER) -> AsyncGenerator[Store]:
    """A run whose task's own program has its score, in a file or wherever populations are."""
    async with Store.open(empty_place(folder)) as store:
        await store.create_run(header, secret=SECRET)
        await store.commit(seed_program())
        yield store


def call(purpose: str = "propose", *versions: int, tokens: int = 4, text: str = "Idea 1") -> AdvisorCall:
    """A call whose tokens are shared out evenly over `versions`, in their order."""
    versions = versions or (0,)
    cuts = [round(i * tokens / len(versions)) for i in range(len(versions) + 1)]
    return AdvisorCall(
        purpose=purpose,  # pyright: ignore[reportArgumentType]
        prompt_ids=tuple(range(100, 106)),
        completion_ids=tuple(range(tokens)),
        logprobs=tuple(-0.25 * i for i in range(tokens)),
        spans=tuple(TokenSpan(v, cuts[i], cuts[i + 1]) for i, v in enumerate(versions)),
        text=text,
        seconds=0.5,
    )


def opened(lease: int, island: int = 1, version: int = 0) -> LeaseOpened:
    return LeaseOpened(lease=lease, island=island, deadline=version + 2, version=version, at=1000.0 + lease)


def advised(
    lease: int,
    island: int = 1,
    *,
    parent: int = 0,
    ideas: tuple[IdeaNote, ...] = (),
    idea: int | None = None,
    experiment: str | None = 'Change layout to "hex".',
    version: int = 0,
) -> Advised:
    calls = (call("propose", version), call("assess", version), call("select", version))
    return Advised(lease, island, parent, calls, ideas, idea, experiment, 2000.0 + lease)


def new_idea(number: int, description: str = "a hexagonal start") -> IdeaNote:
    return IdeaNote(number=number, description=description, known=False)


def seed_program(score: float = 0.9598) -> Evaluated:
    return Evaluated(0, 0, None, "seed = 1\n", "5eed", "ok", "", score, 0.0, {}, 0.25, False, None, 1000.0)


def evaluated(lease: int, island: int = 1, score: float | None = 2.5, *, parent: int = 0) -> Evaluated:
    """A complete rollout. Without a score its program timed out."""
    return Evaluated(
        lease=lease,
        island=island,
        parent=parent,
        program=f"layout = {lease}\n",
        program_hash=f"{lease:032x}",
        outcome="ok" if score is not None else "timeout",
        detail="" if score is not None else "stopped after 2 s",
        score=score,
        reward=3.0 if score is not None else -1.0,
        metrics={"circles": 26.0},
        seconds=0.75,
        memoised=False,
        mechanism="layout",
        at=3000.0 + lease,
    )


def rollout(lease: int, island: int = 1, score: float | None = 2.5, *, version: int = 0) -> tuple[Fact, ...]:
    """A lease from admission to complete."""
    return (
        opened(lease, island, version),
        advised(lease, island, version=version),
        evaluated(lease, island, score),
    )


def shipped(number: int, leases: tuple[int, ...], *, update: int = 0, staleness: int = 0) -> GroupShipped:
    return GroupShipped(
        number=number,
        update=update,
        leases=leases,
        staleness=(staleness,) * len(leases),
        rewards=tuple(float(i) for i in range(len(leases))),
        advantages=tuple(0.5 - i for i in range(len(leases))),
        alpha=0.05 * number,
        digest=f"group-{number}",
        at=4000.0 + number,
    )


def trained(number: int, leases: tuple[int, ...], *, update: int = 0) -> GroupEnded:
    return GroupEnded(
        number=number,
        update=update,
        leases=leases,
        closing="trained",
        reason="",
        version=update + 1,
        weights=f"weights/{update + 1}",
        metrics={"loss": 0.125, "entropy": 2.0, "ess": 0.995, "ess_age_0": 1.0},
        seconds=0.3,
        at=5000.0 + number,
    )


def skipped(number: int, leases: tuple[int, ...], *, update: int = 0) -> GroupEnded:
    reason = "the best-of-k branch collapsed"
    return GroupEnded(number, update, leases, "skipped", reason, update, None, {}, 0.0, 5000.0 + number)


def rescored(candidate: int, score: float | None, epoch: int = 1) -> Rescored:
    """A score of a corrected evaluator."""
    outcome = "ok" if score is not None else "invalid_score"
    reward = -1.0 if score is None else 4.5
    return Rescored(epoch, candidate, outcome, "", score, reward, 0.5, False, 7001.0, 0.25, {"circles": 3.0})
