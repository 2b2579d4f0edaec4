"""What is said about a run depends on its policy and on its objective."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.events import GroupEnded, GroupShipped, RunHeader
from pace_async.observe import formatting
from pace_async.observe.ledger import Ledger
from pace_async.observe.model import RunView
from pace_async.observe.summary import closing_words
from tests.support.observe_facts import fold_all
from tests.support.population_facts import HEADER, rollout, shipped, skipped, trained


def under(policy: str) -> RunHeader:
    return replace(HEADER, config={**HEADER.config, "staleness": {"policy": policy}})


@pytest.mark.parametrize(
    ("policy", "bound", "waits"), [("pace", "at most 2", True), ("drop", "at most 2", False), ("soft", "mean", True)]
)
def test_drop_alone_waits_neither_for_what_would_be_too_old_nor_for_the_learner(
    policy: str, bound: str, waits: bool
) -> None:
    header = under(policy)
    assert formatting.bound_in_words(header.policy, header.max_staleness).startswith(bound)
    limits = Ledger(rollouts=(1.0, 9.0), evaluations=(1.0, 8.0), learning=0.5).limits(header)
    assert limits is not None
    assert ("staleness" in limits.terms) == ("learner" in limits.terms) == waits


def told(ended: GroupEnded, group: GroupShipped, objective: str) -> str:
    return formatting.group_ended(ended, group, objective)


@pytest.mark.parametrize(("objective", "has_alpha"), [("pace", True), ("maxk", False), ("grpo", False)])
def test_alpha_is_shown_for_objectives_that_use_it(objective: str, has_alpha: bool) -> None:
    assert ("alpha" in told(trained(1, (1, 2)), shipped(1, (1, 2)), objective)) == has_alpha


def test_a_group_without_a_difference_says_whether_anything_was_rewarded() -> None:
    group = shipped(1, (1, 2))
    ended = skipped(1, (1, 2))
    assert "bound" in told(ended, replace(group, rewards=(0.0, 0.0)), "pace")
    assert "bound" not in told(ended, replace(group, rewards=(2.0, 2.0)), "pace")


def test_the_summary_names_discarded_rollouts() -> None:
    view = fold_all(RunView(HEADER), rollout(1))
    assert not any("thrown away" in line for line in closing_words(view, Path("runs/a"), 9.0))
    late = replace(view, leases=replace(view.leases, expired=3))
    assert any("3 finished rollouts thrown away" in line for line in closing_words(late, Path("runs/a"), 9.0))
