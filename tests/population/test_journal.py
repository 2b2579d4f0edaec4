"""The journal: every fact in the order of its commit, from which the tables can be made again."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from pace_async.errors import PaceBug
from pace_async.events import (
    Fact,
    FaultSeen,
)
from pace_async.population.journal.bodies import entry_of, fact_of
from pace_async.population.journal.stored import content_of
from pace_async.population.reading.journal import entries_of
from tests.support.every_fact import change, committed, one_of_each, printed, problems
from tests.support.population_facts import (
    HEADER,
    advised,
    evaluated,
    fresh,
    opened,
    seed_program,
    skipped,
)

pytestmark = pytest.mark.usefixtures("both")
HEADER_AND_SEED = 2
"""Facts of a fresh run."""


async def test_every_kind_of_fact_comes_back_equal_in_the_order_of_commits(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        facts = await committed(store, one_of_each())
        entries = await store.read(lambda connection: list(entries_of(connection, store.run_id)))
        later = await store.read(lambda connection: list(entries_of(connection, store.run_id, 7)))
        place = store.place
    assert {type(fact) for fact in facts} >= set(get_args(Fact)) - {type(skipped(1, ()))}
    assert [entry.seq for entry in entries] == list(range(1, len(facts) + HEADER_AND_SEED + 1))
    assert [entry.fact for entry in entries] == [HEADER, seed_program(), *facts]
    assert later == entries[7:]
    assert problems(place) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("update candidates set score = 2.6, merit = 2.6 where candidate = 1", "candidates: row 1 differs from it"),
        (
            "update candidates set program = 'x' where candidate = 1",
            "candidates: row 1 differs from it",
        ),
        (
            "update implementer_tries set program = 'x'",
            "a ImplementerCalled refers to a text or tokens that stand in no row",
        ),
        (
            "update advisor_calls set prompt_ids = completion_ids, prompt_tokens = completion_tokens where lease = 1",
            "fact 4: a Advised refers to a text or tokens that stand in no row",
        ),
        ("update leases set staleness = 1 where lease = 1", "leases: row 1 differs from it"),
        ("delete from proposals where lease = 4 and ordinal = 2", "proposals: row 4, 2 is missing"),
        ("insert into run_states values (1, 7, 'done', '', 1.0)", "run_states: row 7 is not in the journal"),
        ("delete from journal where seq = 5", "fact 5 is missing"),
        ("update journal set body = '{}' where seq = 5", "the body of a Evaluated does not read"),
        ("update journal set kind = 'Dreamt' where seq = 5", "no fact is called 'Dreamt'"),
        ("update journal set seq = seq + 1000 where seq = 1", "fact 1 is missing"),
        ("update blobs set content = (select logprobs from advisor_calls limit 1)", "holds something else"),
        ("delete from blobs", "stand in no row"),
    ],
)
async def test_rows_changed_by_other_hands_are_named(tmp_path: Path, statement: str, problem: str) -> None:
    async with fresh(tmp_path) as store:
        await committed(store, one_of_each()[:7])
        place = store.place
    change(place, statement)
    found = problems(place)
    assert any(problem in line for line in found), found


async def test_a_refused_commit_leaves_no_gap(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        await store.commit(opened(1))
        with pytest.raises(PaceBug):
            await store.commit(FaultSeen("engine", "timeout", "", None, 1.0), opened(1))
        await store.commit(opened(2, 2))
        entries = await store.read(lambda connection: list(entries_of(connection, store.run_id)))
    assert [entry.fact for entry in entries[HEADER_AND_SEED:]] == [opened(1), opened(2, 2)]


async def test_a_long_text_stands_once(tmp_path: Path) -> None:
    program = "layout = 'hex'\n" * 1000
    async with fresh(tmp_path) as store:
        for lease in (1, 2):
            done = replace(evaluated(lease), program=program)
            await store.commit(opened(lease), advised(lease), printed(lease), done)
        [held] = await store.query("select count(*) as blobs, max(length(content)) as size from blobs")
        [longest] = await store.query("select max(length(body)) as size from journal where seq > 1")
        entries = await store.read(lambda connection: list(entries_of(connection, store.run_id)))
    assert (held["blobs"], held["size"] < 100) == (1, True)
    assert longest["size"] < 2000
    assert [getattr(entry.fact, "program", None) for entry in entries].count(program) == 2


async def test_what_no_database_keeps_is_replaced_in_the_journal_as_in_the_tables(tmp_path: Path) -> None:
    hostile = "nul \0 and half a pair \ud800 and é"
    long = hostile * 50
    numbers = {"a": math.nan, "b": -math.inf, "huge": 1.5e308, "far": 1e22, "small": 5e-324, "none": -0.0, hostile: 1.0}
    odd = replace(evaluated(1), detail=hostile, program=long, metrics=numbers, score=2.5)
    async with fresh(tmp_path) as store:
        await store.commit(opened(1), replace(advised(1), experiment=hostile), odd)
        [entry] = await store.read(lambda connection: list(entries_of(connection, store.run_id, 4)))
        place = store.place
    fact: Any = entry.fact
    assert (fact.detail, fact.program) == tuple(
        value.replace("\0", "\ufffd").replace("\ud800", "\ufffd") for value in (hostile, long)
    )
    assert math.isnan(fact.metrics["a"]) and math.isnan(fact.metrics["b"])
    assert problems(place) == []


def test_a_body_without_a_later_field_gets_its_default() -> None:
    old = '{"lease":1,"island":1,"deadline":2,"version":0,"at":1001.0}'
    assert fact_of("LeaseOpened", old, _nothing) == opened(1)
    assert "migrant" not in entry_of(opened(1)).body and '"migrant":4' in entry_of(replace(opened(1), migrant=4)).body


@pytest.mark.parametrize("blob", [b"", b"\x02abc", b"\x01not deflated"])
def test_a_blob_of_no_known_form_is_refused(blob: bytes) -> None:
    with pytest.raises(ValueError, match=r"form|inflated"):
        content_of(blob)


def _nothing(digest: str) -> bytes:
    raise KeyError(digest)
