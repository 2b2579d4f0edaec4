"""A whole run whose advisor is trained and served by a service, in this process."""

import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from pace_async.config import Config, TinkerConfig
from pace_async.configure import resolve
from pace_async.errors import GaveUp
from pace_async.learn.rebuild import SAVED
from pace_async.population.reading.reader import open_readonly
from pace_async.runtime.children import tinker
from pace_async.runtime.run_paths import find_run_paths
from pace_async.runtime.start import launch
from pace_async.runtime.start.asked import bill_of
from pace_async.task import load_task
from tests.doubles.simulated_service import SimulatedService

END = "</s>"
OPTIONS = [f"set layout to {layout}" for layout in ("rings", "hex", "spiral", "random")] + [
    f"set turn to {turn}" for turn in (5, 10, 15, 20)
]


def answer_of(option: str) -> str:
    """One whole answer, which is one token of the toy."""
    return f"Idea A (refine): {option}\nChoice: A\nReasoning: it may help\nSpecification:\n{option}"


def write_tokenizer(folder: Path, answers: list[str]) -> Path:
    folder.mkdir()
    words = {"?": 0, END: 1} | {answer: place for place, answer in enumerate(answers, start=2)}
    made: Any = Tokenizer(models.WordLevel(words, unk_token="?"))
    made.pre_tokenizer = cast("Any", pre_tokenizers).WhitespaceSplit()
    made.add_special_tokens([END])
    made.save(str(folder / "tokenizer.json"))
    config = {"model_type": "llama", "max_position_embeddings": 8192, "eos_token_id": 1}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder


def ready(config: TinkerConfig) -> None:
    """In place of the look for the package and its key."""


def served_by(service: SimulatedService) -> Callable[..., Any]:
    @asynccontextmanager
    async def opened(*_: object) -> AsyncGenerator[SimulatedService]:
        yield service

    return opened


def settings(folder: Path, budget: float | None = None) -> Config:
    return resolve(
        None,
        {
            "learner.trainer": "tinker",
            "learner.learning_rate": 0.05,
            "learner.group_size": 4,
            "learner.k": 2,
            "learner.rollback": False,
            "advisor.model": str(folder),
            "advisor.calls": "one",
            "advisor.max_tokens": 8,
            "implementer.model": "catalog",
            "search.threads": 4,
            "stop.candidates": 16,
            "stop.budget": budget,
            "tinker.base_model": "toy",
            "tinker.price_per_million_prompt": 1.0,
            "tinker.price_per_million_sampled": 2.0,
            "tinker.price_per_million_trained": 3.0,
        },
        environment={},
    )


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> SimulatedService:
    """Where a run finds its service: most of its answers are one whole answer and the end."""
    found = SimulatedService(np.array([-30.0, 1.0, *[0.0] * len(OPTIONS)]))
    monkeypatch.setattr(tinker, "open_service", served_by(found))
    monkeypatch.setattr(tinker, "refuse_unless_ready", ready)
    return found


def rows_of(run: Path, sql: str) -> list[dict[str, Any]]:
    where, name = find_run_paths(str(run)).population
    with open_readonly(where, name) as reader:
        return reader.query(sql)


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_run_trains_serves_and_pays_at_a_service_and_its_rows_say_so(
    tmp_path: Path, service: SimulatedService
) -> None:
    folder, run = write_tokenizer(tmp_path / "toy", list(map(answer_of, OPTIONS))), tmp_path / "run"
    config = settings(folder)
    assert launch.start(config, load_task(config.task), run, ("none", ())) == 0

    trained = rows_of(run, "select metrics from groups where state = 'trained'")
    assert len(trained) == service.calls["step"] >= 1
    versions = rows_of(run, "select version, state, receipt from versions where version > 0 order by version")
    assert [row["version"] for row in versions] == list(range(1, len(trained) + 1))
    for row in versions:
        receipt = json.loads(row["receipt"])
        assert (row["state"], receipt["proof"]) == ("published", "named")
        assert receipt["snapshot"] in service.states
        assert f"/pace-v{row['version']}-" in receipt["snapshot"]
    assert rows_of(run, "select max(staleness) worst from leases")[0]["worst"] <= config.bound
    fresh = [json.loads(row["metrics"]).get("k3_age_0", 0.0) for row in trained]
    assert max(fresh) < 1e-9  # of the version in training: sampler and trainer agree

    paid = rows_of(run, "select model, sum(cost_usd) usd, count(*) n from implementer_calls group by model")
    usd = {row["model"]: row["usd"] for row in paid}
    tokens = "select sum(prompt_tokens) asked, sum(completion_tokens) had from implementer_calls where model = "
    [sampled], [stepped] = rows_of(run, f"{tokens}'tinker:toy'"), rows_of(run, f"{tokens}'tinker:toy (training)'")
    assert usd["tinker:toy"] == pytest.approx(sampled["asked"] * 1e-6 + sampled["had"] * 2e-6)
    assert usd["tinker:toy (training)"] == pytest.approx((stepped["asked"] + stepped["had"]) * 3e-6)
    assert rows_of(run, "select count(*) n from reservations where ordinal is null")[0]["n"] == 0


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_step_beyond_the_budget_ends_the_search_and_a_resume_trains_its_group_once(
    tmp_path: Path, service: SimulatedService
) -> None:
    folder, run = write_tokenizer(tmp_path / "toy", list(map(answer_of, OPTIONS))), tmp_path / "run"
    config = settings(folder, budget=0.04)  # of questions; a step on four of them costs more
    assert launch.start(config, load_task(config.task), run, ("none", ())) == 3
    assert "step" not in service.calls
    shipped = rows_of(run, "select group_number from groups where state = 'shipped'")
    assert len(shipped) == 1

    assert launch.go_on(str(run), {"stop.budget": 10.0}, ("none", ())) == 0
    states = {row["state"] for row in rows_of(run, "select state from groups")}
    assert "shipped" not in states
    assert len(rows_of(run, "select 1 from groups where state = 'trained'")) == service.calls["step"] >= 1
    assert rows_of(run, "select count(*) n from leases where state = 'trained'")[0]["n"] % 4 == 0


def test_the_bill_counts_the_services_tokens_before_a_run(tmp_path: Path) -> None:
    config = settings(write_tokenizer(tmp_path / "toy", list(map(answer_of, OPTIONS))))
    said = bill_of(config, load_task(config.task))
    assert re.search(r"training (\d+) in, \1 out, [\d.e-]+ USD", said)
    unpriced = config.model_copy(update={"tinker": TinkerConfig(base_model="toy")})
    assert "USD unknown" in bill_of(unpriced, load_task(config.task))
    own = config.model_copy(update={"tinker": TinkerConfig(url="http://127.0.0.1:1")})
    assert ", 0 USD" in bill_of(own, load_task(config.task))


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_run_goes_on_from_the_version_at_the_service_when_the_files_of_its_groups_are_gone(
    tmp_path: Path, service: SimulatedService
) -> None:
    folder, run = write_tokenizer(tmp_path / "toy", list(map(answer_of, OPTIONS))), tmp_path / "run"
    config = settings(folder)
    assert launch.start(config, load_task(config.task), run, ("none", ())) == 0
    made = rows_of(run, "select group_number from versions where version > 0 order by version")
    kept = {int(file.stem) for file in find_run_paths(str(run)).groups.glob("*.safetensors")}
    assert made[0]["group_number"] not in kept

    assert launch.go_on(str(run), {"stop.candidates": 28}, ("none", ())) == 0
    assert rows_of(run, "select count(*) n from candidates")[0]["n"] == 28 + 1
    assert len(rows_of(run, "select 1 from groups where state = 'trained'")) == service.calls["step"]
    [last] = rows_of(run, "select max(version) newest from versions")
    (find_run_paths(str(run)).learner / "versions" / f"{last['newest']:06d}" / SAVED).unlink()
    with pytest.raises(
        GaveUp, match=r"Where the service has version \d+ is not known any more: restore .* from a copy"
    ):
        launch.go_on(str(run), {"stop.candidates": 40}, ("none", ()))
