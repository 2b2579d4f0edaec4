"""Learner and engine of the paper's configurations start. Models of the same architectures, with few random weights,
are trained by each objective's settings, and their versions are published and proven."""

from pathlib import Path

import pytest

from pace_async.advise.engines.managed import EngineHandle, managed_engine
from pace_async.publish import probe
from pace_async.publish.base import Receipt
from pace_async.runtime.children.replica import Delivery, Probing, Replica
from pace_async.weights import checkpoint_digests, recorded_digests
from tests.support.paper_starts import (
    GROUPS,
    METHODS,
    OwnWeights,
    laid,
    next_version,
    qwen_model,
    r1_model,
    started,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

START_S = 1200.0
"""The engine's deadline. Beside heavy load the imports alone may take minutes."""


@pytest.fixture(scope="module")
def r1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return r1_model(tmp_path_factory.mktemp("r1") / "model")


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return qwen_model(tmp_path_factory.mktemp("qwen") / "model")


@pytest.mark.nightly
async def test_r1s_architecture_is_trained_published_and_proven_by_every_objective(r1: Path, tmp_path: Path) -> None:
    async with managed_engine(EngineHandle(log=tmp_path / "engine.log", start_s=START_S), r1) as handle:
        for method, objective in METHODS.items():
            config = laid("paper/eplb", "paper/deepseek_8b", method and f"paper/{method}")
            assert config.learner.objective == objective
            folder = tmp_path / objective
            lineage = started(r1, folder, config)
            probing = Probing(OwnWeights(lineage), limit=None)
            async with Replica(handle.url, probing=probing, delivery=Delivery(numbered=True)) as replica:
                receipts: list[Receipt] = []
                for _ in range(GROUPS):
                    outcome = next_version(lineage, config, folder)
                    weights = Path(str(outcome.weights))
                    receipts.append(await replica.publish(outcome.version, weights))
                    assert receipts[-1].digests == checkpoint_digests(weights)
                    k3 = receipts[-1].k3
                    assert k3 is not None
                    assert 0 <= k3 < probe.GROSS
            assert receipts[-1].digests != checkpoint_digests(r1)


@pytest.mark.parametrize("method", METHODS)
def test_qwens_architecture_is_trained_by_every_objective_and_keeps_names_and_types(
    method: str | None, qwen: Path, tmp_path: Path
) -> None:
    config = laid("paper/eplb", method and f"paper/{method}")
    lineage = started(qwen, tmp_path, config)
    *_, weights = [Path(str(next_version(lineage, config, tmp_path).weights)) for _ in range(GROUPS)]
    recorded = recorded_digests(weights)
    assert recorded is not None
    assert recorded.keys() == checkpoint_digests(qwen).keys()
    assert recorded == checkpoint_digests(weights)
    assert recorded != checkpoint_digests(qwen)


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("name", "model"), [("deepseek_8b_h200_lora", "r1"), ("qwen3.5_4b_h200_lora", "qwen")])
def test_adapters_of_both_architectures_are_trained_by_every_objective(
    name: str, model: str, method: str | None, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    given: Path = request.getfixturevalue(model)
    config = laid(name, method and f"paper/{method}")
    assert (config.learner.objective, config.learner.lora_rank is None) == (METHODS[method], False)
    lineage = started(given, tmp_path, config)
    versions = [Path(str(next_version(lineage, config, tmp_path).weights)) for _ in range(GROUPS)]
    digests = [recorded_digests(version) for version in versions]
    assert digests[0] is not None
    assert all("lora_" in tensor for tensor in digests[0])
    assert digests[0] != digests[-1]
