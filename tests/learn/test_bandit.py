"""Can it learn at all? One of eight mechanisms is rewarded, and the learner must find it from rewards alone."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from pace_async.learn.client import ProcessLearner
from pace_async.learn.lineage import Lineage
from pace_async.learn.settings import TrainerConfig
from pace_async.replay.groupfile import write_group
from scripts.benchmarks.toys import MECHANISMS, Bandit, probabilities, write_novice

GROUPS = 40
SETTINGS = TrainerConfig(learning_rate=3e-3, checkpoint_every=1000)


@pytest.fixture(scope="session")
def novice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_novice(tmp_path_factory.mktemp("bandit") / "model")


def model_of(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder)


def next_group(bandit: Bandit, folder: Path, number: int) -> Path | None:
    """The file of one group, or None where all rewards are equal."""
    group = bandit.group(number)
    if group is None:
        return None
    path = folder / f"{number:06d}.safetensors"
    path.parent.mkdir(exist_ok=True)
    write_group(path, group)
    return path


def learn(lineage: Lineage, bandit: Bandit, folder: Path) -> None:
    lineage.start([])
    for number in range(1, GROUPS + 1):
        path = next_group(bandit, folder, number)
        if path is not None:
            bandit.versions.append(model_of(Path(str(lineage.train(path).weights))))


def test_the_novice_answers_each_mechanism_about_equally_often(novice: Path) -> None:
    for probability in probabilities(model_of(novice)).values():
        assert probability == pytest.approx(1 / len(MECHANISMS), abs=0.03)


@pytest.mark.long
@pytest.mark.nightly
async def test_the_learner_process_finds_the_one_rewarded_mechanism_in_40_groups(novice: Path, tmp_path: Path) -> None:
    bandit = Bandit(model_of(novice), seed=1)
    async with ProcessLearner(novice, tmp_path / "out", SETTINGS) as learner:
        for number in range(1, GROUPS + 1):
            path = next_group(bandit, tmp_path / "groups", number)
            if path is not None:
                step = await learner.train(path)
                assert step.weights is not None
                bandit.versions.append(model_of(step.weights))
    assert bandit.found > 0.8


@pytest.mark.parametrize(("seed", "stale"), [pytest.param(2, 0, marks=pytest.mark.long), (3, 2)])
def test_the_learner_finds_it_also_from_rollouts_that_older_versions_sampled(
    novice: Path, tmp_path: Path, seed: int, stale: int
) -> None:
    bandit = Bandit(model_of(novice), seed=seed, stale=stale)
    learn(Lineage(novice, tmp_path / "out", SETTINGS), bandit, tmp_path / "groups")
    assert bandit.found > 0.8


@pytest.mark.parametrize("seed", [*(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2)), 3])
def test_with_rewards_shuffled_within_each_group_it_finds_nothing(novice: Path, tmp_path: Path, seed: int) -> None:
    bandit = Bandit(model_of(novice), seed=seed, shuffle=True)
    learn(Lineage(novice, tmp_path / "out", SETTINGS), bandit, tmp_path / "groups")
    assert len(bandit.versions) > 10, "the control must have been trained too"
    assert bandit.found < 0.4
