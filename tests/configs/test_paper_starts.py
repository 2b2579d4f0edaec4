"""Learner and engine of the paper's configurations start. Models of the same architectures, with few random weights,
are trained by each objective's settings, and their versions are published and proven."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pace_async.advise.engines.managed import managed_engine
from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.learn.lineage import Lineage, Outcome
from pace_async.learn.settings import TrainerConfig
from pace_async.objectives import Collapsed, advantages
from pace_async.publish import probe
from pace_async.publish.base import Receipt
from pace_async.replay.groupfile import write_group
from pace_async.runtime.children.replica import Delivery, Probing, Replica
from pace_async.weights import checkpoint_digests, recorded_digests
from tests.support.chat_models import OPENED, SWITCHED, VOCABULARY, qwen3, qwen3_5, save_chat_model
from tests.support.learn_toys import random_group

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500), pytest.mark.anyio]

CONFIGS = Path(__file__).parents[2] / "configs"
METHODS = {None: "pace", "thetaevolve": "grpo", "ttt_discover": "entropic", "maxk": "maxk"}
REWARDS = [0.1, 0.9, 0.3, 0.2, 0.7, 0.4, 0.0, 0.5]
GROUPS = 3


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def r1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model: Any = qwen3(0)
    return save_chat_model(tmp_path_factory.mktemp("r1") / "model", OPENED, model=model.to(torch.bfloat16))


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = qwen3_5(0).to(torch.bfloat16)
    return save_chat_model(tmp_path_factory.mktemp("qwen") / "model", SWITCHED, model=model)


def laid(*names: str | None) -> Config:
    """These files, one over the other."""
    return resolve([CONFIGS / f"{name}.yaml" for name in names if name], environment={})


def next_version(lineage: Lineage, config: Config, folder: Path) -> Outcome:
    """Train a group whose advantages are the objective's own."""
    update, learner = lineage.version, config.learner
    given = advantages(
        learner.objective, REWARDS, k=learner.k, alpha=0.5, restandardise=False, collapsed=learner.collapsed
    )
    assert not isinstance(given, Collapsed)
    group = random_group(vocab=VOCABULARY, seed=update, update=update, number=update + 1, rollouts=len(REWARDS))
    rollouts = (replace(one, advantage=value) for one, value in zip(group.rollouts, given, strict=True))
    path = folder / f"{update + 1:06d}.safetensors"
    write_group(path, replace(group, objective=learner.objective, rollouts=tuple(rollouts)))
    outcome = lineage.train(path)
    assert (outcome.reason, outcome.version) == ("", update + 1)
    assert ("kl_reference" in outcome.metrics) is (lineage.settings.kl_penalty > 0)
    return outcome


class OwnWeights:
    """A scorer: the weights of a learner in this process."""

    def __init__(self, lineage: Lineage) -> None:
        self.lineage = lineage

    async def logprobs(
        self, version: int, prompt_ids: tuple[int, ...], completion_ids: tuple[int, ...]
    ) -> tuple[float, ...]:
        assert version == self.lineage.version
        return tuple(self.lineage.trainer.logprobs(list(prompt_ids), list(completion_ids)))


async def test_r1s_architecture_is_trained_published_and_proven_by_every_objective(r1: Path, tmp_path: Path) -> None:
    async with managed_engine(r1, log=tmp_path / "engine.log") as handle:
        for method, objective in METHODS.items():
            config = laid("paper/eplb", "paper/deepseek_8b", method and f"paper/{method}")
            assert config.learner.objective == objective
            folder = tmp_path / objective
            lineage = Lineage(r1, folder, TrainerConfig.of(config))
            lineage.start([])
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
    lineage = Lineage(qwen, tmp_path, TrainerConfig.of(config))
    lineage.start([])
    *_, weights = [Path(str(next_version(lineage, config, tmp_path).weights)) for _ in range(GROUPS)]
    recorded = recorded_digests(weights)
    assert recorded is not None
    assert recorded.keys() == checkpoint_digests(qwen).keys()
    assert recorded == checkpoint_digests(weights)
    assert recorded != checkpoint_digests(qwen)


@pytest.mark.parametrize(("name", "model"), [("deepseek_8b_h200_lora", "r1"), ("qwen3.5_4b_h200_lora", "qwen")])
def test_adapters_of_both_architectures_are_trained(
    name: str, model: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    given: Path = request.getfixturevalue(model)
    config = laid(name)
    lineage = Lineage(given, tmp_path, TrainerConfig.of(config))
    lineage.start([])
    versions = [Path(str(next_version(lineage, config, tmp_path).weights)) for _ in range(GROUPS)]
    digests = [recorded_digests(version) for version in versions]
    assert digests[0] is not None
    assert all("lora_" in tensor for tensor in digests[0])
    assert digests[0] != digests[-1]
