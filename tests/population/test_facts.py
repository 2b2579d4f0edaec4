"""Every fact is written and read back equal."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from pace_async.errors import PaceBug
from pace_async.events import (
    AdvisorCall,
    CascadeScore,
    CascadeStageEnded,
    Claimed,
    EvaluationAttempted,
    Fact,
    FaultSeen,
    FreshScore,
    IdeaNote,
    ImplementerCalled,
    LeaseAborted,
    LeaseReleased,
    Practised,
    RunStateChanged,
    TokenSpan,
    VersionPublished,
)
from pace_async.population.reading import read_facts
from pace_async.population.reading.questions import show, status
from pace_async.population.reading.record import RunRecord
from pace_async.population.writing.writes import WRITERS
from pace_async.programs.compiled import digest_as_it_is
from tests.support.population_facts import (
    HEADER,
    MINIMISING,
    advised,
    call,
    evaluated,
    fresh,
    new_idea,
    opened,
    rollout,
    seed_program,
    shipped,
    skipped,
    trained,
)

pytestmark = pytest.mark.usefixtures("both")


async def test_every_fact_has_a_writer() -> None:
    assert set(WRITERS) == set(get_args(Fact))


async def test_a_header_comes_back_equal(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        assert (await store.load("demo")).header == HEADER


async def test_an_advice_comes_back_equal_with_every_token_and_span(tmp_path: Path) -> None:
    fact = replace(
        advised(1, ideas=(new_idea(1), new_idea(2, "more restarts"), IdeaNote(1, "a hexagonal start", known=True))),
        idea=1,
        covers=(2, 40),
        calls=(
            call("propose", 1, 2, tokens=7),
            AdvisorCall("select", (0, 70000, 2**32 - 1), (65535,), (-math.inf,), (TokenSpan(3, 0, 1),), "", 0.1),
            replace(call("select", 3, tokens=1), words={"name_3": "capteur_é3"}),
        ),
    )
    async with fresh(tmp_path) as store:
        await store.commit(opened(1), fact)
        back = await store.read(lambda connection: read_facts.advice_of(connection, store.run_id, [1]))
        rows = await store.query("SELECT oldest_version, length(prompt_ids) FROM advisor_calls ORDER BY ordinal")
        [lease] = await store.query("SELECT oldest_version FROM leases")
    assert back == {1: fact}
    assert [tuple(row.values()) for row in rows] == [(1, 12), (3, 12), (3, 12)]
    assert lease["oldest_version"] == 1


async def test_a_paid_answer_is_kept_until_its_question_is_answered_again_or_the_rollout_is_decided(
    tmp_path: Path,
) -> None:
    def paid(purpose: str, text: str) -> ImplementerCalled:
        answer = replace(
            call(purpose, text=text), prompt_ids=(), completion_ids=(), logprobs=(), spans=(), prompt=f"ask {purpose}"
        )
        return ImplementerCalled(1, "openai/asked", "ok", 1, 1, 0.5, 1.0, 2.0, role="advisor", answered=answer)

    def answers(record: RunRecord) -> list[str]:
        return [answer.text for answer in record.run_state.running[1].answers]

    async with fresh(tmp_path) as store:
        await store.commit(opened(1), paid("propose", "A"), paid("assess", "B"))
        kept = await store.load()
        await store.commit(paid("propose", "C"))
        replaced = await store.load()
        decided = replace(advised(1), calls=(replace(call(text="C"), prompt="ask propose"), call("assess", text="D")))
        await store.commit(decided)
        rows = await store.query("SELECT text FROM advisor_calls ORDER BY ordinal")
        after = await store.load()
    assert (answers(kept), answers(replaced), answers(after)) == (["A", "B"], ["C"], [])
    assert [row["text"] for row in rows] == ["C", "D"]
    assert [record.run_state.spend_usd for record in (kept, replaced, after)] == [1.0, 1.5, 1.5]


async def test_an_evaluation_comes_back_equal_with_or_without_a_score(tmp_path: Path) -> None:
    good, bad = evaluated(1), replace(evaluated(2, score=None), program=None, program_hash=None, mechanism=None)
    async with fresh(tmp_path) as store:
        await store.commit(opened(1), advised(1), good)
        await store.commit(opened(2), advised(2), bad)
        back = await store.read(lambda connection: read_facts.evaluations_of(connection, store.run_id, [0, 1, 2]))
    assert back == {0: seed_program(), 1: good, 2: bad}


async def test_tries_on_fresh_instances_come_back_equal_and_say_what_the_own_program_scores_there(
    tmp_path: Path,
) -> None:
    held = FreshScore(2**62, 2.5, "ok", 2.4, 0.96, True, 0.5)
    failed = (FreshScore(11, 2.6, "ok", 0.97, 0.96, False, 0.5), FreshScore(12, 2.6, "timeout", None, None, False, 2.0))
    good, bad = (
        replace(evaluated(1), fresh=(held,)),
        replace(evaluated(2, score=None), outcome="suspicious", fresh=failed),
    )
    async with fresh(tmp_path) as store:
        await store.commit(opened(1), advised(1), good)
        await store.commit(opened(2), advised(2), bad)
        back = await store.read(lambda connection: read_facts.evaluations_of(connection, store.run_id, [1, 2]))
        record = await store.load()
        seen = await store.query("SELECT candidate, claimed, confirmed, tries, fresh_score, outcome FROM confirmations")
    assert back == {1: good, 2: bad}
    assert record.own_scores == {2**62: 0.96, 11: 0.96, 12: None}
    assert [tuple(row.values()) for row in seen] == [(1, 2.5, 1, 1, 2.4, "ok"), (2, 2.6, 0, 2, None, "suspicious")]


async def test_the_stages_of_a_cascade_come_back_equal_and_stand_with_their_lease(tmp_path: Path) -> None:
    stopped = CascadeScore("few", "ok", 0.2, 0.3, False, 0.5, False)
    passed = (
        CascadeScore("few", "ok", 0.4, 0.3, True, 0.5, True),
        CascadeScore("some", "ok", 0.5, 0.5, True, 1.5, False),
    )
    ends = CascadeStageEnded(1, 1, stopped, None, None, 2500.0)
    goes_on = tuple(
        CascadeStageEnded(2, number, score, "layout = 2\n", "layout", 2600.0) for number, score in enumerate(passed, 1)
    )
    below = replace(evaluated(1, score=None), outcome="below_threshold", reward=0.0)
    async with fresh(tmp_path) as store:
        await store.commit(opened(1), advised(1), ends, below)
        await store.commit(opened(2), advised(2), *goes_on)
        back = await store.read(lambda connection: read_facts.stages_of(connection, store.run_id, [1, 2]))
        record = await store.load()
        seen = await store.query("SELECT lease, stage, score, passed, ended, full_score FROM cascades ORDER BY 1, 2")
        with pytest.raises(PaceBug, match="cannot have ended a stage: it is open, complete"):
            await store.commit(ends)
    assert back == {1: (ends,), 2: goes_on}
    assert {lease: each.stages for lease, each in record.run_state.running.items()} == {2: goes_on}
    assert [tuple(row.values()) for row in seen] == [
        (1, "few", 0.2, 0, "below_threshold", None),
        (2, "few", 0.4, 1, None, None),
        (2, "some", 0.5, 1, None, None),
    ]
    assert record.best is not None and record.best.candidate == 0


async def test_attempts_are_rows_of_which_the_newest_of_open_leases_are_known_to_a_resume(tmp_path: Path) -> None:
    lost = EvaluationAttempted(
        1, "full", 0, 1, "infrastructure_error", 0.5, 0.25, 2500.0, 2500.5, "the node was lost", accepted=False
    )
    ended = replace(lost, attempt=2, outcome="ok", detail="", accepted=True)
    own = replace(ended, lease=0, fresh=1, attempt=1)
    async with fresh(tmp_path) as store:
        await store.commit(opened(1), advised(1), lost)
        await store.commit(own, ended, replace(ended, stage="few", attempt=1))
        record = await store.load()
        rows = await store.query("select lease, stage, fresh, attempt, accepted from evaluation_attempts order by 1, 2")
        with pytest.raises(PaceBug, match="EvaluationAttempted of lease 1"):
            await store.commit(replace(ended, attempt=3, outcome="infrastructure_error"))
        await store.commit(LeaseAborted(1, 1, "engine", "died", 1.0))
        after = await store.load()
    assert record.run_state.attempts == {(1, "full", 0): 2, (1, "few", 0): 1, (0, "full", 1): 1}
    assert [tuple(row.values()) for row in rows[:2]] == [(0, "full", 1, 1, 1), (1, "few", 0, 1, 1)]
    assert after.run_state.attempts == {(0, "full", 1): 1}


async def test_what_ran_on_each_machine_of_a_cluster_is_part_of_the_status(tmp_path: Path) -> None:
    here = EvaluationAttempted(1, "full", 0, 1, "ok", 1.0, 0.5, 10.0, 11.0, "", accepted=True)
    first = replace(here, attempt=2, node="one-a1", machine="x86_64 A", seconds=2.0, ended_at=13.0)
    lost = replace(first, attempt=3, outcome="infrastructure_error", accepted=False, ended_at=14.0)
    other = replace(first, attempt=4, node="two-b2", machine="aarch64 B")
    async with fresh(tmp_path) as store:
        await store.commit(opened(1), advised(1), here, first, lost, other)
        found = await store.read(status)
    assert found["nodes"] == [
        {
            "node": "one-a1",
            "machine": "x86_64 A",
            "attempts": 2,
            "lost": 1,
            "seconds": 4.0,
            "queue_seconds": 1.0,
            "last_at": 14.0,
        },
        {
            "node": "two-b2",
            "machine": "aarch64 B",
            "attempts": 1,
            "lost": 0,
            "seconds": 2.0,
            "queue_seconds": 0.5,
            "last_at": 13.0,
        },
    ]


async def test_a_claim_that_is_read_back_waited_as_long_as_its_own_program(tmp_path: Path) -> None:
    """Neither the wait of the program before it counts, nor that for fresh instances."""
    claim = Claimed(1, 1, "layout = 1\n", "layout", 2.5, {}, 0.75, False, 2500.0, queue_seconds=7.0, feedback="said")
    made = EvaluationAttempted(1, "full", 0, 1, "candidate_error", 1.0, 100.0, 1.0, 2.0, "", True)
    lost = replace(made, attempt=2, outcome="infrastructure_error", queue_seconds=1.0, accepted=False)
    scored = replace(made, attempt=3, outcome="ok", queue_seconds=2.0)
    cheap = replace(scored, stage="few", attempt=1, queue_seconds=4.0)
    elsewhere = replace(scored, fresh=1, attempt=1, queue_seconds=50.0)
    async with fresh(tmp_path) as store:
        await store.commit(opened(1), advised(1), made, lost, scored, cheap, elsewhere, claim)
        record = await store.load()
    assert record.run_state.running[1].claim == claim


async def test_what_an_evaluator_said_of_a_program_is_there_for_the_next_author_after_a_resume(tmp_path: Path) -> None:
    said = "worst in row 3\n```\nnot a fence"
    async with fresh(tmp_path) as store:
        await store.commit(opened(1), advised(1), replace(evaluated(1), feedback=said))
        await store.commit(LeaseReleased(1, "skipped", 5.0), opened(2), advised(2), evaluated(2))
        state = (await store.load()).run_state
    assert {member.candidate: member.feedback for member in state.islands[1].members}[1] == said
    assert {member.candidate: member.feedback for member in state.islands[1].members}[2] is None


async def test_the_practice_of_a_leases_last_program_is_told_with_it_also_after_a_resume(tmp_path: Path) -> None:
    digest = digest_as_it_is(evaluated(1).program or "")
    first = Practised(1, "another", "timeout", "stopped after 1.0 s", None, {}, "on\n```", 1.0, False, 2400.0)
    last = replace(first, program_digest=digest, outcome="ok", detail="", score=0.5, metrics={"reach": 2.0})
    own = replace(last, lease=0, program_digest=digest_as_it_is(seed_program().program or ""))
    async with fresh(tmp_path) as store:
        await store.commit(own, opened(1), advised(1), first)
        assert (await store.load()).run_state.running[1].practice == first
        await store.commit(last)
        await store.commit(evaluated(1), LeaseReleased(1, "skipped", 5.0))
        await store.commit(opened(2), advised(2), replace(first, lease=2), evaluated(2))
        state = (await store.load()).run_state
        shown = [await store.read(lambda connection, number=number: show(connection, number)) for number in (0, 1, 2)]
        with pytest.raises(PaceBug, match="Practised of lease 1"):
            await store.commit(replace(last, score=None))
    practices = {member.candidate: member.practice for member in state.islands[1].members}
    assert practices == {0: own, 1: last, 2: None}, "that of candidate 2 was of another program"
    assert [one["practice"] for one in shown] == [asdict(own), asdict(last), None]


async def test_a_claim_and_its_tries_are_kept_until_its_candidate_exists(tmp_path: Path) -> None:
    claim = Claimed(1, 1, "layout = 1\n", "layout", 2.5, {"circles": 26.0}, 0.75, False, 2500.0)
    failed = FreshScore(11, 2.5, "timeout", None, 0.96, False, 0.5)
    async with fresh(tmp_path) as store:
        with pytest.raises(PaceBug, match="cannot claim"):
            await store.commit(claim)
        await store.commit(opened(1), advised(1), claim)
        await store.commit(replace(claim, tries=(failed,)))
        record = await store.load()
        assert record.run_state.running[1].claim == replace(claim, tries=(failed,))
        assert record.own_scores == {11: 0.96}
        await store.commit(replace(evaluated(1), fresh=(failed, replace(failed, seed=12, outcome="ok", score=2.0))))
        record = await store.load()
        assert record.leases == (1,) and not record.run_state.running
        await store.commit(opened(2), advised(2), replace(claim, lease=2), LeaseAborted(2, 1, "engine", "died", 1.0))
        assert await store.query("select * from claims") == []


async def test_a_shipment_comes_back_equal_with_or_without_advantages(tmp_path: Path) -> None:
    first, second = shipped(1, (1, 2)), replace(shipped(2, (3, 4)), advantages=None)
    async with fresh(tmp_path) as store:
        for lease in range(1, 5):
            await store.commit(*rollout(lease))
        await store.commit(first)
        assert (await store.load()).run_state.shipped == first
        await store.commit(skipped(1, (1, 2)))
        await store.commit(second)
        assert (await store.load()).run_state.shipped == second


async def test_a_trained_group_closes_its_leases_and_writes_a_version_that_is_then_published(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        await store.commit(*rollout(1), *rollout(2, 2))
        await store.commit(shipped(1, (1, 2)))
        await store.commit(trained(1, (1, 2)))
        await store.commit(VersionPublished(1, 0.4, 0.05, {"lm_head.weight": "ab12"}, 6000.0))
        leases = await store.query(
            "SELECT state, trained_by, staleness, group_reward, advantage FROM leases ORDER BY lease"
        )
        [group] = await store.query("SELECT state, loss, entropy, ess, k3, seconds, metrics FROM groups")
        versions = await store.query("SELECT version, state, weights, seconds, paused_seconds, receipt FROM versions")
    assert [tuple(row.values()) for row in leases] == [("trained", 0, 0, 0.0, 0.5), ("trained", 0, 0, 1.0, -0.5)]
    *figures, metrics = group.values()
    assert figures == ["trained", 0.125, 2.0, 0.995, None, 0.3]
    assert _parsed(metrics) == {"ess_age_0": 1.0}
    rows = [tuple(row.values()) for row in versions]
    assert rows[0] == (0, "written", None, None, None, None)
    assert (*rows[1][:5], _parsed(rows[1][5])) == (1, "published", "weights/1", 0.4, 0.05, {"lm_head.weight": "ab12"})


def _parsed(value: Any) -> Any:
    """JSON, as a database gives it: text, or parsed already."""
    return json.loads(value) if isinstance(value, str) else value


async def test_a_skipped_group_closes_its_leases_and_leaves_the_version(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        await store.commit(*rollout(1), *rollout(2, 2), shipped(1, (1, 2)), skipped(1, (1, 2)))
        record = await store.load()
    assert (record.run_state.learner, record.groups, record.closings["skipped"], record.leases) == (0, 1, 2, ())


async def test_calls_faults_and_states_are_kept_in_their_order(tmp_path: Path) -> None:
    paid = ImplementerCalled(1, "gemini", "ok", 1200, 300, 0.004, 2.5, 1500.0)
    async with fresh(tmp_path) as store:
        await store.commit(RunStateChanged("running", "", 1.0), opened(1), advised(1))
        await store.commit(paid, replace(paid, outcome="no_code", cost_usd=0.002))
        await store.commit(FaultSeen("evaluate", "sandbox", "bwrap died", 1, 1600.0))
        await store.commit(FaultSeen("evaluate", "sandbox", "the task's own program", 0, 1601.0))
        await store.commit(LeaseAborted(1, 1, "sandbox", "bwrap died", 1700.0), RunStateChanged("done", "target", 2.0))
        calls = await store.query("SELECT ordinal, outcome, cost_usd, prompt_tokens FROM implementer_calls")
        faults = await store.query("SELECT number, stage, detail, lease FROM faults")
        [lease] = await store.query("SELECT state, stage, reason, closed_at FROM leases")
        record = await store.load()
    assert [tuple(row.values()) for row in calls] == [(1, "ok", 0.004, 1200), (2, "no_code", 0.002, 1200)]
    assert [tuple(row.values()) for row in faults] == [
        (1, "evaluate", "bwrap died", 1),
        (2, "evaluate", "the task's own program", None),
    ]
    assert tuple(lease.values()) == ("aborted", "advised", "sandbox: bwrap died", 1700.0)
    assert (record.state, record.reason, record.spend_usd) == ("done", "target", pytest.approx(0.006))


async def test_a_complete_lease_may_be_released_without_a_learner(tmp_path: Path) -> None:
    async with fresh(tmp_path, replace(HEADER, objective="none")) as store:
        await store.commit(*rollout(1), LeaseReleased(1, "skipped", 9.0))
        assert (await store.load()).closings == {"trained": 0, "skipped": 1, "aborted": 0, "expired": 0}


@pytest.mark.fault("Database", "text that no database holds")
async def test_text_that_no_database_can_hold_loses_a_character_and_not_its_row(tmp_path: Path) -> None:
    nasty = "a\x00b\ud800c\udfffd 🦊"
    kept = "a\ufffdb\ufffdc\ufffdd 🦊"
    async with fresh(tmp_path) as store:
        await store.commit(opened(1), replace(advised(1, experiment=nasty), calls=(call(text=nasty),)))
        await store.commit(replace(evaluated(1), program=nasty, detail=nasty, metrics={nasty: math.inf, "x": 1.0}))
        await store.commit(FaultSeen("advise", "engine", nasty, None, 1.0))
        back = await store.read(lambda connection: read_facts.evaluations_of(connection, store.run_id, [1]))
        [texts] = await store.query(
            "SELECT e.description, a.text, f.detail FROM experiments e, advisor_calls a, faults f"
        )
    assert (back[1].program, back[1].detail, back[1].metrics) == (kept, kept, {kept: None, "x": 1.0})
    assert set(texts.values()) == {kept}


@pytest.mark.fault("Database", "ten megabytes of code")
async def test_ten_megabytes_of_code_are_kept_to_the_last_character(tmp_path: Path) -> None:
    program = "# 🦊 naïve\n" * 900_000
    assert len(program.encode()) > 10_000_000
    async with fresh(tmp_path) as store:
        await store.commit(opened(1), advised(1), replace(evaluated(1), program=program))
        back = await store.read(lambda connection: read_facts.evaluations_of(connection, store.run_id, [1]))
    assert back[1].program == program


async def test_the_best_of_a_minimising_task_is_the_lowest_score(tmp_path: Path) -> None:
    async with fresh(tmp_path, MINIMISING) as store:
        await store.commit(*rollout(1, score=0.5), *rollout(2, 2, score=0.7))
        record = await store.load()
        ranked = await store.query("SELECT candidate, rank FROM leaderboard ORDER BY rank")
    assert record.best is not None
    assert (record.best.candidate, record.best.score) == (1, 0.5)
    assert [row["candidate"] for row in ranked] == [1, 2, 0]
