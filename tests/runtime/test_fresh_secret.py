"""The fresh seeds of a run are drawn, kept, and never shown."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pace_async.configure import dump
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.evaluate.base import SECRET_SEEDS
from pace_async.evaluate.scorer.scorer_client import Outputs, Scorer
from pace_async.observe.bus import observing
from pace_async.observe.jsonl import JsonlDisplay
from pace_async.population.store import Store
from pace_async.runtime.run.fresh import FreshInstances, fresh_seeds
from pace_async.runtime.start.supervisor import drive
from pace_async.search.state import Member
from pace_async.simulate.stages import World
from tests.faults.lives import Noting
from tests.support.command_line import Shell
from tests.support.population_facts import HEADER, empty_population
from tests.support.simulated_runs import SECRET, settings, simulated

SHOWN_NOWHERE = pytest.mark.fault("Programs as weapons", "fresh seeds are shown nowhere, and a resume repeats them")


async def search(folder: Path) -> None:
    """A run in which every new best is tried on fresh instances, with all that a run writes."""
    config = settings(stop__candidates=14, search__threads=1, learner__objective="none")
    async with simulated(folder, config, World()) as run:
        own = Member(0, run.core.task.program, run.core.task.spec.bounds.lower)
        judge = Noting(run.core.stages.evaluator, run.core, folder.parent.parent / "seeds")
        run.core.fresh = FreshInstances(judge, run.core.task, own, fresh_seeds(SECRET, 3))
        async with observing(run.core.bus, [JsonlDisplay(folder / "events.jsonl")]):
            await drive(run.core)
    (folder / "config.yaml").write_text(dump(config))


@pytest.mark.long
@SHOWN_NOWHERE
def test_no_command_page_log_or_view_shows_a_fresh_seed_or_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "circle_packing-1"
    run.mkdir(parents=True)
    anyio.run(search, run)
    with closing(sqlite3.connect(run / "population.db")) as database:
        tables = [
            name for (name,) in database.execute("select name from sqlite_master where type in ('table', 'view')")
        ]
        [(tried,)] = database.execute("select count(*) from fresh_scores")
        assert database.execute("select fresh from secrets").fetchall() == [(SECRET,)]
    assert tried > 1 and "confirmations" in tables
    shell = Shell(tmp_path, monkeypatch, capsys)
    commands = [["report", "-o", "report.html"], ["status", "--json"], ["best", "--json"], ["log"]]
    commands += [["show", "circle_packing-1", str(number), "--json"] for number in range(1, 15)]
    commands += [["show", "circle_packing-1", "1", "--prompts"], ["show", "circle_packing-1", "1"]]
    commands += [["export", "--what", what] for what in ("candidates", "rollouts", "ideas", "updates")]
    commands += [["db", "sql", "circle_packing-1", f"select * from {name}"] for name in tables if name != "secrets"]
    said = [shell.pace(*command) for command in commands]
    assert [done.code for done in said].count(0) > len(said) - 2, [done.err for done in said if done.code]
    asked = (tmp_path / "seeds").read_text()
    assert all(str(seed) in asked for seed in fresh_seeds(SECRET, 1)), "the evaluator was told"
    kept = ("population.db", "seeds")
    files = [file for file in tmp_path.rglob("*") if file.is_file() and not file.name.startswith(kept)]
    assert {"report.html", "events.jsonl", "config.yaml"} <= {file.name for file in files}
    texts = [done.out + done.err for done in said] + [file.read_text(errors="replace") for file in files]
    hidden = [SECRET, *(form for seed in fresh_seeds(SECRET, 3) for form in (str(seed), f"{seed:x}"))]
    assert [form for form in hidden for text in texts if form in text] == []
    assert any('"fresh":[{"seed":1,' in text.replace(" ", "") for text in texts)


@SHOWN_NOWHERE
async def test_each_run_stores_its_own_secret_and_never_prints_it(tmp_path: Path) -> None:
    drawn: list[str] = []
    async with Store.open(empty_population(tmp_path)) as store:
        for name in ("one", "other"):
            await store.create_run(replace(HEADER, name=name))
            record = await store.load(name)
            assert record.secret not in repr(record)
            drawn.append(record.secret)
    async with Store.open(tmp_path / "population.db") as store:
        assert [(await store.load(name)).secret for name in ("one", "other")] == drawn
    assert [len(bytes.fromhex(secret)) for secret in drawn] == [32, 32] and drawn[0] != drawn[1]


@SHOWN_NOWHERE
async def test_an_evaluator_that_names_the_seed_as_it_fails_does_not_reveal_it(tmp_path: Path) -> None:
    evaluator = tmp_path / "evaluator.py"
    evaluator.write_text(
        "def instances(seed):\n    if seed % 2:\n        raise ValueError(f'seed {seed} is too large')\n"
        "    return [0]\n"
        "def score(instances, outputs, seed):\n    raise OSError(f'no file for {seed}')\n"
    )
    async with Scorer(evaluator, tmp_path / "log") as scorer:
        with pytest.raises(UsageError, match=r"instances failed: .*seed a fresh seed is too large"):
            await scorer.instances(SECRET_SEEDS + 1)
        with pytest.raises(UsageError, match=r"instances failed: .*seed 1 is too large"):
            await scorer.instances(1)
        with pytest.raises(InfrastructureFault, match="no file for a fresh seed"):
            await scorer.score(Outputs(SECRET_SEEDS, [b"0"]))
