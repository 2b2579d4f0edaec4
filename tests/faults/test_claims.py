"""Killed while a new best is tried on fresh instances: a resume goes on with the try that was cut off."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pace_async.population.reading.reader import open_readonly
from pace_async.programs.compiled import program_hash
from pace_async.runtime.run.fresh import fresh_seeds
from pace_async.task import load_task
from tests.faults.invariants import assert_sound
from tests.faults.lives import EVALUATED, ProcessLife, lives
from tests.support.simulated_runs import SECRET, settings

ALONE: dict[str, Any] = {"stop__candidates": 14, "search__threads": 1, "learner__objective": "none"}


def evaluations(folder: Path) -> list[tuple[str, int]]:
    """(program, seed) of each evaluation that was begun, in order, over all processes."""
    return [(program, int(seed)) for program, seed in map(str.split, (folder / EVALUATED).read_text().splitlines())]


def rows(folder: Path, columns: str, table: str) -> list[dict[str, Any]]:
    with open_readonly(folder / "population.db") as reader:
        return reader.query(f"select {columns} from {table} order by 1, 2")


@pytest.mark.long
@pytest.mark.fault("Crash and resume", "killed while a new best is tried on fresh instances")
@pytest.mark.nightly
def test_tries_before_a_kill_are_not_repeated(memory: Path) -> None:
    """One thread, so one evaluation at a time: each is the last of a life once, and is all that the next may repeat."""
    config = settings(**ALONE)
    hidden, own = config.evaluation.seed, program_hash(load_task("circle_packing").program)
    candidates, tries = "candidate, outcome, score, program_hash", "candidate, number, score, own_score, held"
    with lives() as process:
        whole = ProcessLife(str(memory / "whole"), ALONE, claims=True, seed=1)
        Path(whole.folder).mkdir()
        assert not process.live(whole)
        asked = evaluations(Path(whole.folder))
        seeds = {seed for _, seed in asked}
        assert seeds == {hidden, *fresh_seeds(SECRET, config.evaluation.fresh_seeds)}, "some claim took every try"
        expected = [rows(Path(whole.folder), *of) for of in ((candidates, "candidates"), (tries, "fresh_scores"))]
        fresh = [number for number, (_, seed) in enumerate(asked, start=1) if seed != hidden]
        for number in fresh[:6]:
            life = replace(whole, folder=str(memory / str(number)), name="evaluate after", number=number)
            folder = Path(life.folder)
            folder.mkdir()
            assert process.live(life)
            assert [row["lease"] for row in rows(folder, "run_id, lease", "claims")] != []
            assert not process.live(replace(life, name=""))
            assert_sound(folder / "population.db", finished=True)
            cut_off = asked[number - 1]
            twice = {which for which, count in Counter(evaluations(folder)).items() if count > 1}
            assert cut_off in twice <= {cut_off, (own, cut_off[1])}, f"killed after evaluation {number}"
            assert rows(folder, "run_id, lease", "claims") == []
            assert [rows(folder, *of) for of in ((candidates, "candidates"), (tries, "fresh_scores"))] == expected
