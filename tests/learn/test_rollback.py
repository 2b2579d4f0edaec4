"""The learner goes back to an earlier version: weights and optimizer to the last bit, and so again after a restart."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pace_async.learn.base import RESTORED
from pace_async.learn.lineage import Lineage
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.store import optimizer_state
from pace_async.replay.group import Group
from pace_async.replay.groupfile import read_digested, write_group
from tests.support.learn_toys import random_group

SETTINGS = TrainerConfig(learning_rate=1e-3, micro_tokens=200)
GOOD, LAST = 2, 6
"""The version to go back to, and the first update after going back."""


def groups(folder: Path, good: int = GOOD) -> list[Path]:
    """Versions 1 to 5 are trained, 6 is made of `good`, 7 and 8 are trained at half the rate."""
    made: list[Path] = []
    for update in range(LAST + 2):
        group = random_group(seed=update, update=update, number=update + 1, rollouts=4)
        keeps = tuple(version for version in (good,) if version)
        if update == LAST - 1:
            silent = tuple(replace(rollout, advantage=0.0) for rollout in group.rollouts)
            group = replace(group, rollouts=silent, restores=good)
        made.append(folder / f"{update + 1:06d}.safetensors")
        write_group(made[-1], replace(group, keeps=keeps, rate=0.5 if update >= LAST else 1.0))
    return made


def state(lineage: Lineage) -> dict[str, torch.Tensor]:
    weights = {name: weight.detach() for name, weight in lineage.trainer.policy.named_parameters()}
    return {name: tensor.clone() for name, tensor in {**weights, **optimizer_state(lineage.trainer)}.items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(tensor, second[name]) for name, tensor in first.items())


def test_a_group_file_keeps_its_fields_about_going_back(tmp_path: Path) -> None:
    group = replace(random_group(update=5), restores=3, rate=0.25, keeps=(3, 5))
    write_group(tmp_path / "1.safetensors", group)
    assert read_digested(tmp_path / "1.safetensors")[0] == group
    for wrong in ({"restores": 5}, {"rate": 0.0}):
        with pytest.raises(ValueError, match=r"not earlier|multiplied"):
            replace(group, **wrong)


@pytest.mark.parametrize(
    ("good", "every"),
    [pytest.param(GOOD, 1, marks=pytest.mark.long), pytest.param(GOOD, 100, marks=pytest.mark.long), (0, 3)],
)
def test_weights_and_optimizer_of_the_good_version_are_the_next_and_replay_repeats_it(
    toy: Path, tmp_path: Path, good: int, every: int
) -> None:
    settings = replace(SETTINGS, checkpoint_every=every)
    paths = groups(tmp_path, good)
    straight = Lineage(toy, tmp_path / "straight", settings)
    straight.start([])
    states = [state(straight)]
    for path in paths:
        outcome = straight.train(path)
        states.append(state(straight))
        assert outcome.version == len(states) - 1
        if outcome.version == LAST:
            assert outcome.metrics == {RESTORED: float(good)}
    assert same(states[LAST], states[good])
    assert not same(states[LAST], states[LAST - 1])
    for version in range(good, len(paths)):
        broken = Lineage(toy, tmp_path / "broken", settings)
        broken.start(paths[:version])
        assert same(state(broken), states[version])
        broken.train(paths[version])
        assert same(state(broken), states[version + 1])


@pytest.mark.fault("Learning", "a lost good version is replaced by version 0, and replay gives the same weights")
def test_where_the_good_version_is_lost_the_next_one_is_version_0(toy: Path, tmp_path: Path) -> None:
    paths = groups(tmp_path)
    lineage = Lineage(toy, tmp_path / "out", SETTINGS)
    lineage.start([])
    given = state(lineage)
    for path in paths[: LAST - 1]:
        lineage.train(path)
    damaged = tmp_path / "out" / "checkpoints" / f"{GOOD:06d}" / "optimizer.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-10])
    assert lineage.train(paths[LAST - 1]).metrics == {RESTORED: 0.0}
    assert same(state(lineage), given)
    lineage.train(paths[LAST])
    again = Lineage(toy, tmp_path / "out", SETTINGS)
    again.start(paths[: LAST + 1])
    assert same(state(again), state(lineage))


def test_checkpoints_to_go_back_to_stay_and_no_more(toy: Path, tmp_path: Path) -> None:
    lineage = Lineage(toy, tmp_path / "out", SETTINGS)
    lineage.start([])

    def kept(update: int, keeps: tuple[int, ...]) -> list[int]:
        group: Group = replace(random_group(seed=update, update=update, rollouts=4), keeps=keeps)
        write_group(tmp_path / f"{update}.safetensors", group)
        oldest = lineage.train(tmp_path / f"{update}.safetensors").oldest
        assert oldest >= update - 1 or update < 2, "what is kept to go back to keeps no group file"
        return sorted(int(entry.name) for entry in (tmp_path / "out" / "checkpoints").iterdir())

    assert [kept(update, (1,)) for update in range(4)] == [[1], [1, 2], [1, 2, 3], [1, 3, 4]]
    assert kept(4, (1, 5)) == [1, 4, 5]
    assert kept(5, (5, 6)) == [5, 6]
    assert kept(6, (5, 7)) == [5, 6, 7]
