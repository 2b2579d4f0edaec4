"""A fact that contradicts the record is refused, and leaves no row."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.errors import PaceBug
from pace_async.events import (
    Fact,
    FaultSeen,
    ImplementerCalled,
    ImplementerChosen,
    ImplementerTry,
    LeaseAborted,
    LeaseReleased,
    RunStateChanged,
    TryEvaluated,
    VersionPublished,
)
from tests.support.population_facts import (
    advised,
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


READY: tuple[Fact, ...] = (*rollout(1), *rollout(2, 2), *rollout(3), opened(4, 2), opened(5), advised(5))
ANSWERED = ImplementerCalled(
    5, "gemini", "ok", 1, 1, 0.1, 1.0, 1.0, tried=ImplementerTry(1, "gemini", "ok", "", "x = 1\n", None)
)
UNUSABLE = ImplementerTry(1, "gemini", "no_code_block", "no code", None, "no")
TRY_FAILED = TryEvaluated(5, 1, "candidate_error", "NameError (line 1)", 0.1, 1.0, feedback="said")
CHOSEN = ImplementerChosen(5, "tuning", "gemini", 0.5, 0.1, 1.0)
REFUSED: dict[str, tuple[Fact, ...]] = {
    "a lease opened twice": (opened(1),),
    "an advice for a lease that was never opened": (advised(9),),
    "an advice given twice": (advised(5),),
    "a candidate before its advice": (evaluated(4, 2),),
    "a candidate evaluated twice": (evaluated(1),),
    "a second program of the task": (seed_program(),),
    "a parent that does not exist": (advised(4, 2, parent=77),),
    "an idea chosen that does not exist": (advised(4, 2, idea=5),),
    "an idea number used twice": (advised(4, 2, ideas=(new_idea(1), new_idea(1))),),
    "a failure with a score": (replace(evaluated(5), outcome="timeout"),),
    "a success without a score": (replace(evaluated(5), score=None),),
    "a success without a program": (replace(evaluated(5), program=None),),
    "a score that is not a number": (replace(evaluated(5), score=math.nan),),
    "an infinite score": (replace(evaluated(5), score=math.inf),),
    "a reward that is not a number": (replace(evaluated(5), reward=math.nan),),
    "a failure of the infrastructure as a candidate": (
        replace(evaluated(5, score=None), outcome="infrastructure_error"),
    ),
    "a negative cost": (ImplementerCalled(1, "gemini", "ok", 1, 1, -0.1, 1.0, 1.0),),
    "a try evaluated that was never made": (TryEvaluated(1, 1, "candidate_error", "", 0.1, 1.0),),
    "a try evaluated twice": (ANSWERED, TRY_FAILED, TRY_FAILED),
    "a try that made no program evaluated": (replace(ANSWERED, tried=UNUSABLE), TRY_FAILED),
    "an answer that has the number of another": (ANSWERED, ANSWERED),
    "an implementer chosen twice": (CHOSEN, CHOSEN),
    "an implementer chosen for a lease that does not exist": (replace(CHOSEN, lease=77),),
    "a group with a lease that is not complete": (shipped(1, (1, 5)),),
    "a group with a lease twice": (shipped(1, (1, 1)),),
    "a group that tells a wrong staleness": (shipped(1, (1, 2), update=1, staleness=0),),
    "a group staler than the run allows": (shipped(1, (1, 2), update=3, staleness=3),),
    "a lease shipped twice": (shipped(1, (1, 2)), shipped(2, (2, 3))),
    "a group that ends twice": (shipped(1, (1, 2)), skipped(1, (1, 2)), skipped(1, (1, 2))),
    "a group that ends before it was shipped": (trained(1, (1, 2)),),
    "a group that ends with other leases": (shipped(1, (1, 2)), trained(1, (1, 3))),
    "a group that ends with fewer leases": (shipped(1, (1, 2)), trained(1, (1,))),
    "a group that ends with a lease twice": (shipped(1, (1, 2)), trained(1, (1, 1))),
    "a group of one that ends with it twice": (shipped(1, (1,)), trained(1, (1, 1))),
    "a group that ends as aborted": (shipped(1, (1, 2)), replace(skipped(1, (1, 2)), closing="aborted")),
    "a trained group that leaves the version": (shipped(1, (1, 2)), replace(trained(1, (1, 2)), version=0)),
    "a skipped group that makes a version": (shipped(1, (1, 2)), replace(skipped(1, (1, 2)), version=1)),
    "a version that skips one": (shipped(1, (1, 2), update=1, staleness=1), trained(1, (1, 2), update=1)),
    "one version trained twice": (
        *(shipped(1, (1, 2)), trained(1, (1, 2))),
        *(shipped(2, (3,)), trained(2, (3,))),
    ),
    "a shipped lease aborted": (shipped(1, (1, 2)), LeaseAborted(1, 1, "engine", "", 1.0)),
    "a lease aborted twice": (LeaseAborted(4, 2, "engine", "", 1.0), LeaseAborted(4, 2, "engine", "", 1.0)),
    "a lease released before it is complete": (LeaseReleased(5, "expired", 1.0),),
    "a lease released as trained": (LeaseReleased(1, "trained", 1.0),),
    "a version published that nobody wrote": (VersionPublished(1, 0.1, 0.0, {}, 1.0),),
    "a version published twice": (VersionPublished(0, 0.1, 0.0, {}, 1.0), VersionPublished(0, 0.1, 0.0, {}, 2.0)),
    "a fault of a lease that does not exist": (FaultSeen("advise", "engine", "", 99, 1.0),),
    "a state that nobody knows": (RunStateChanged("sleeping", "", 1.0),),
}


async def test_facts_that_contradict_the_record_are_bugs_and_leave_no_row(tmp_path: Path) -> None:
    accepted: list[str] = []
    async with fresh(tmp_path) as store:
        await store.commit(*READY)
        before = await store.load()
        for name, facts in REFUSED.items():
            try:
                await store.commit(*facts)
                accepted.append(name)
            except PaceBug:
                pass
        assert await store.load() == before
    assert accepted == []


async def test_a_bug_is_reported_in_a_sentence_that_names_the_lease(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        await store.commit(*rollout(1))
        with pytest.raises(PaceBug, match="lease 1 cannot become advised: it is open, complete"):
            await store.commit(advised(1))
        with pytest.raises(PaceBug, match=r"the record refuses LeaseOpened of lease 1: (UNIQUE|duplicate key)"):
            await store.commit(opened(1))
        await store.commit(*rollout(2, 2), opened(3))
        with pytest.raises(PaceBug, match="group 1 at update 0 cannot take lease 3 as 0 stale: it is open, admitted"):
            await store.commit(shipped(1, (1, 2, 3)))
        await store.commit(shipped(1, (1, 2)))
        with pytest.raises(PaceBug, match="group 1 cannot close lease 3, which was not shipped with it: it is open"):
            await store.commit(trained(1, (1, 2, 3)))
