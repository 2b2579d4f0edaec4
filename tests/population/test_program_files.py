"""A program of several files in rows and in the journal: a manifest in the row, and each file once among the blobs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select

from pace_async.errors import UsageError
from pace_async.events import Evaluated
from pace_async.population.journal.bodies import entry_of, fact_of
from pace_async.population.journal.stored import content_of
from pace_async.population.models import BlobRow, CandidateRow
from pace_async.population.reading import journal, questions
from pace_async.population.reading.load import load_record
from pace_async.population.reading.programs import whole
from pace_async.population.store import Store
from pace_async.programs.fileset import MANIFEST_LINE, Program
from tests.support.population_facts import (
    BOTH,
    HEADER,
    SECRET,
    advised,
    empty_place,
    evaluated,
    opened,
    populations_of,
    seed_program,
)

SEED = Program.of_files({"src/a.py": "VALUE = 3\n" * 40, "src/b.py": "", "README.md": "ümläut \U0001f600\n"})
CHANGED = Program.of_files({**SEED.files, "src/b.py": "x = 1\n"})
UNLIKELY = f"{MANIFEST_LINE}{'0' * 32} a.py\n"


@pytest.fixture(params=BOTH, autouse=True)
def populations(request: pytest.FixtureRequest) -> Iterator[None]:
    with populations_of(request):
        yield


async def test_rows_have_manifests_and_readers_get_whole_programs(tmp_path: Path) -> None:
    async with Store.open(empty_place(tmp_path)) as store:
        await store.create_run(HEADER, secret=SECRET)
        await store.commit(replace(seed_program(), program=SEED.text))
        for lease in (1, 2):
            program = (CHANGED if lease == 1 else SEED).text
            await store.commit(opened(lease), advised(lease), replace(evaluated(lease), program=program))

        def looked_at(connection: Connection) -> None:
            rows = connection.execute(select(CandidateRow.candidate, CandidateRow.program)).all()
            assert {row.candidate: row.program for row in rows} == {
                0: SEED.manifest,
                1: CHANGED.manifest,
                2: SEED.manifest,
            }
            files = {*SEED.files.values(), *CHANGED.files.values()}
            assert connection.execute(select(func.count()).select_from(BlobRow)).scalar_one() == len(files)
            record = load_record(connection, None)
            assert record.run_state.seed_program is not None
            assert record.run_state.seed_program.program == SEED.text
            assert {member.program for member in record.run_state.islands[1].members} >= {CHANGED.text}
            facts = [entered.fact for entered in journal.entries_of(connection, 1)]
            assert [fact.program for fact in facts if isinstance(fact, Evaluated)] == [
                SEED.text,
                CHANGED.text,
                SEED.text,
            ]
            assert questions.show(connection, 1)["program"] == CHANGED.text
            with pytest.raises(UsageError, match="restore it from a backup"):
                whole(connection, 1, UNLIKELY)

        await store.read(looked_at)


def test_a_fact_reads_from_the_manifest_of_its_row_and_the_blobs() -> None:
    fact = replace(evaluated(1), program=CHANGED.text)
    entry = entry_of(fact)
    held = {digest: content_of(blob) for digest, blob in entry.blobs.items()}

    held[CHANGED.digest] = CHANGED.manifest.encode()
    assert fact_of(entry.kind, entry.body, held.__getitem__) == fact
