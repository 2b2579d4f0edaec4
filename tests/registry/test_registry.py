"""A thing that is added to a registry can be chosen, and is listed wherever its neighbours are."""

import random
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pace_async.config import Config, SearchConfig
from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.implement.assemble import refuse_unless_possible
from pace_async.implement.shares import models_of
from pace_async.learn.correction import Correction, weigh
from pace_async.objectives import NO_SPREADS, advantages, alpha_at
from pace_async.publish.base import PushFailed
from pace_async.registry.base import Entry, Registry
from pace_async.registry.corrections import CORRECTIONS, OffPolicyCorrection
from pace_async.registry.engines import ADVISOR_ENGINES, AdvisorEngine
from pace_async.registry.evaluators import EVALUATORS, EvaluatorKind
from pace_async.registry.implementers import IMPLEMENTERS, ImplementerKind
from pace_async.registry.objectives import ALPHA_SCHEDULES, OBJECTIVES, AlphaSchedule, Objective, trains
from pace_async.registry.parent_rules import PARENT_RULES
from pace_async.registry.sandbox_tiers import SANDBOX_TIERS, SandboxTier
from pace_async.registry.staleness_policies import STALENESS_POLICIES as POLICIES
from pace_async.registry.staleness_policies import StalenessPolicy, policy_of
from pace_async.registry.transports import TRANSPORTS, PublisherTransport
from pace_async.runtime.children.engines import refuse_unless_served
from pace_async.runtime.children.replica import Delivery, Probing, Replica
from pace_async.search.parents import parent_of
from pace_async.search.state import Island, Member
from pace_async.staleness.gate import Lease
from pace_async.staleness.policies import NOTHING, CompleteRollout, admits, choose
from pace_async.task import load_task
from scripts.documentation.docs_choices import TABLES
from tests.registry import toys

SETTINGS: list[Any] = [
    pytest.param(OBJECTIVES, Objective("centred", "a toy", lambda: toys.centred), "learner.objective", id="objective"),
    pytest.param(PARENT_RULES, Entry("oldest", "a toy", lambda: toys.oldest), "search.parents", id="parents"),
    pytest.param(POLICIES, StalenessPolicy("never", "a toy", lambda: toys.never), "staleness.policy", id="policy"),
    pytest.param(CORRECTIONS, OffPolicyCorrection("even", "a toy", lambda: toys.even), "learner.correction", id="even"),
    pytest.param(
        ALPHA_SCHEDULES, AlphaSchedule("half", "a toy", lambda: toys.half), "learner.alpha_schedule", id="alpha"
    ),
    pytest.param(
        EVALUATORS, EvaluatorKind("abroad", "a toy", lambda: toys.abroad), "evaluation.evaluators", id="abroad"
    ),
    pytest.param(
        TRANSPORTS, PublisherTransport("post", "a toy", lambda: toys.by_post), "advisor.transport", id="transport"
    ),
]
FLAGS = [
    pytest.param("evaluators", "EVALUATORS", "EvaluatorKind", "--evaluators", id="evaluator"),
    pytest.param("objectives", "OBJECTIVES", "Objective", "--objective", id="objective"),
    pytest.param(
        "staleness_policies", "STALENESS_POLICIES", "StalenessPolicy", "--staleness-policy", id="staleness policy"
    ),
    pytest.param("displays", "DISPLAYS", "RunDisplay", "--display", id="display"),
]


def added(monkeypatch: pytest.MonkeyPatch, registry: Registry[Any], entry: Entry[Any]) -> None:
    """The registry with one more entry, until the test ends."""
    monkeypatch.setattr(registry, "_entries", dict(registry))
    registry.add(entry)


TABLE = Registry("colour", Entry("red", "the first"), Entry("green", "the second"), Entry("blue", "the third"))


def test_a_registry_keeps_the_order_of_its_entries() -> None:
    assert list(TABLE) == ["red", "green", "blue"]
    assert TABLE.listed() == "red, green and blue"
    assert TABLE.metavar() == "red|green|blue"
    assert TABLE.described() == "red: the first. green: the second. blue: the third."


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(
        ValueError, match=r"unknown colour 'gren' \(did you mean green\?\): there is red, green and blue"
    ):
        TABLE.named("gren")


def test_a_name_can_be_taken_once() -> None:
    with pytest.raises(ValueError, match="already a colour 'red'"):
        TABLE.add(Entry("red", "another"))


def test_the_tables_import_neither_numpy_nor_torch() -> None:
    tables = "import pace_async.config, scripts.documentation.docs_choices"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {tables}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert not {"numpy", "torch", "litellm", "rich"} & set(done.stdout.split())


@pytest.mark.parametrize("entry", [pytest.param(one, id=one.name) for _, table in TABLES for one in table.values()])
def test_an_entry_has_code_that_is_there(entry: Entry[Any]) -> None:
    assert entry.about
    assert not entry.about.endswith(".")
    loads = [code for one in fields(entry) if callable(code := getattr(entry, one.name))]
    assert all(callable(load()) for load in loads)


@pytest.mark.parametrize(("registry", "entry", "key"), SETTINGS)
def test_an_added_entry_can_be_set_and_is_in_the_schema_and_in_errors(
    registry: Registry[Any], entry: Entry[Any], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, name = key.split(".")
    with pytest.raises(UsageError, match=f"unknown {registry.kind} '{entry.name}'"):
        resolve(None, {key: entry.name}, {})
    added(monkeypatch, registry, entry)
    assert getattr(getattr(resolve(None, {key: entry.name}, {}), room), name) == entry.name
    section = Config.model_json_schema()["properties"][room]["$ref"].rpartition("/")[2]
    assert Config.model_json_schema()["$defs"][section]["properties"][name]["enum"] == list(registry)
    with pytest.raises(UsageError, match=rf"\(did you mean {entry.name}\?\): there is .* and {entry.name}"):
        resolve(None, {key: f"{entry.name}x"}, {})


@pytest.mark.long
@pytest.mark.parametrize(("table", "registry", "kind", "flag"), FLAGS)
def test_an_added_entry_is_in_the_help_of_its_flag(table: str, registry: str, kind: str, flag: str) -> None:
    entry = f"{kind}('newcomer', 'a toy from elsewhere')"
    addition = f"from pace_async.registry.{table} import {registry}, {kind}; {registry}.add({entry})"
    done = subprocess.run(
        [sys.executable, "-c", f"{addition}; from pace_async.cli.main import main; main()", "run", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = " ".join(done.stdout.split())
    assert "|newcomer" in told.partition(flag)[2]
    assert "newcomer: a toy from elsewhere." in told


def test_an_objective_that_is_added_gives_its_advantages(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, OBJECTIVES, Objective("centred", "a toy", lambda: toys.centred))
    assert advantages("centred", [0.0, 2.0], k=1, alpha=0.0) == [-1.0, 1.0]


def test_a_schedule_that_is_added_gives_its_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, ALPHA_SCHEDULES, AlphaSchedule("half", "a toy", lambda: toys.half))
    assert alpha_at("half", 1, 10, spreads=NO_SPREADS) == 0.5


def test_a_parent_rule_that_is_added_chooses_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, PARENT_RULES, Entry("oldest", "a toy", lambda: toys.oldest))
    members = (Member(3, "c", 9.0), Member(2, "b", 5.0))
    island = Island(number=0, members=members)
    chosen = parent_of(island, SearchConfig(parents="oldest"), random.Random(0))
    assert chosen == members[1]


def test_a_policy_that_is_added_chooses_groups_and_its_attributes_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, POLICIES, StalenessPolicy("never", "a toy", lambda: toys.never, counts_running=False))
    assert choose("never", [CompleteRollout(Lease(0, 1), 0)], [], learner=0, bound=0, size=1) == NOTHING
    assert admits("never", running=100, held=0, lag=0, bound=0, size=1)


def test_a_correction_that_is_added_weighs_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, CORRECTIONS, OffPolicyCorrection("even", "a toy", lambda: toys.even))
    log_ratio_BT = np.log([[0.2, 1.0, 3.0]])
    rule = Correction(kind="even")
    weighed = weigh(log_ratio_BT, np.ones((1, 3), dtype=bool), np.zeros((1, 3), dtype=np.int64), rule)
    assert weighed.weights_BT.tolist() == [[1.0, 1.0, 1.0]]


async def test_a_transport_that_is_added_makes_the_publisher(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    added(monkeypatch, TRANSPORTS, PublisherTransport("post", "a toy", lambda: toys.by_post))
    async with Replica("http://engine", probing=Probing(), delivery=Delivery(transport="post")) as replica:
        with pytest.raises(PushFailed, match="the toy carries nothing to http://engine"):
            await replica.publish(1, tmp_path)


def test_an_engine_that_is_added_is_checked_and_may_serve_adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, object] = {"advisor.engine": "abacus", "learner.lora_rank": 8}
    with pytest.raises(UsageError, match=r"learner\.lora_rank needs advisor\.engine vllm"):
        resolve(None, settings, {})
    with pytest.raises(UsageError, match="--engine abacus: there is embedded, vllm, tinker and http://HOST:PORT"):
        refuse_unless_served("abacus")
    engine = AdvisorEngine("abacus", "a toy", check=lambda: toys.broken, serves_adapters=True)
    added(monkeypatch, ADVISOR_ENGINES, engine)
    assert resolve(None, settings, {}).learner.lora_rank == 8
    with pytest.raises(UsageError, match="--engine abacus is broken"):
        refuse_unless_served("abacus")


async def test_a_sandbox_tier_that_is_added_is_tried_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SANDBOX_TIERS, "_entries", {})
    SANDBOX_TIERS.add(SandboxTier("first", "a toy", lambda: toys.not_here))
    SANDBOX_TIERS.add(SandboxTier("second", "a toy", lambda: toys.trusting, trusts=True))
    with pytest.raises(UsageError, match=r"No sandbox could be proven on this machine \(the toy is not installed\)"):
        await pick_tier(False)
    assert (await pick_tier(True)).name == "none"


def test_an_implementer_that_is_added_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert models_of("copy,catalog") == ["copy"]
    added(monkeypatch, IMPLEMENTERS, ImplementerKind("copy", "a toy", lambda: toys.copy))
    assert models_of("copy,catalog") == []
    with pytest.raises(UsageError, match="the toy does not fit"):
        refuse_unless_possible("copy", load_task("circle_packing"))


def test_a_policy_that_is_not_installed_is_read_as_one_without_a_hard_bound() -> None:
    assert not policy_of("from elsewhere").bounds_maximum
    assert policy_of("pace").bounds_maximum


def test_an_objective_that_is_not_installed_is_read_as_one_that_trains() -> None:
    assert trains("from elsewhere")
    assert not trains("none")
