"""Runs whose models read words, under virtual time, and what people put into them."""

from pathlib import Path

from pace_async.config import Config
from pace_async.events.literals import Subject
from pace_async.population.blobs import unpack_ids
from pace_async.population.writing.write_people import NewEntry, inserted
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import run_virtually
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import REACH, Life, durations


def configured(**changed: object) -> Config:
    given: dict[str, object] = {
        **{"search__memory": "run", "search__threads": 4, "learner__objective": "none", "stop__candidates": 40},
        **{"advisor__max_prompt_tokens": None, "implementer__max_tokens": 1000},
    }
    return settings(**(given | changed))


def life(folder: Path, config: Config) -> Life:
    return Life(folder, config, World(seed=3, durations=durations(3)), SimulatedFaults(reach=REACH))


def first_questions(run: Life) -> dict[int, str]:
    rows = run.rows("select lease, prompt_ids, prompt_tokens from advisor_calls where ordinal = 1 order by lease")
    return {lease: Bytes().decode(unpack_ids(ids, tokens)) for lease, ids, tokens in rows}


def put(run: Life, text: str, subject: Subject | None = None, number: int | None = None) -> None:
    new = NewEntry(text, subject=subject, number=number)
    run_virtually(lambda: run.population.read(lambda connection: inserted(connection, 1, new)))
