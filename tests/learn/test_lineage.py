"""Each group makes one version, once. A lost version is rebuilt to the last bit."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pace_async.learn.lineage import GroupRefused, Lineage
from pace_async.learn.rebuild import OPTIMIZER, given_optimizer
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.store import optimizer_state
from pace_async.replay.groupfile import write_group
from pace_async.weights import checkpoint_digests, damage, is_complete, recorded_digests
from tests.support.learn_toys import random_group

SETTINGS = TrainerConfig(learning_rate=1e-3, micro_tokens=200)


@pytest.fixture(scope="session")
def groups(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files of the groups that train versions 0, 1, 2, …"""
    folder = tmp_path_factory.mktemp("groups")
    paths = [folder / f"{update + 1:06d}.safetensors" for update in range(8)]
    for update, path in enumerate(paths):
        write_group(path, random_group(seed=update, update=update, number=update + 1, rollouts=4, max_age=2))
    return paths


def begin(toy: Path, out: Path, history: Sequence[Path] = (), settings: TrainerConfig = SETTINGS) -> Lineage:
    lineage = Lineage(toy, out, settings)
    lineage.start(history)
    return lineage


def state(lineage: Lineage) -> dict[str, torch.Tensor]:
    weights = {name: weight.detach() for name, weight in lineage.trainer.policy.named_parameters()}
    return {name: tensor.clone() for name, tensor in {**weights, **optimizer_state(lineage.trainer)}.items()}


def assert_same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def numbers(folder: Path) -> list[int]:
    return sorted(int(entry.name) for entry in folder.iterdir())


def test_a_version_on_disk_is_a_float32_model_that_transformers_loads_with_its_tokenizer(
    toy: Path, tmp_path: Path, groups: list[Path]
) -> None:
    lineage = begin(toy, tmp_path)
    outcome = lineage.train(groups[0])
    assert (outcome.update, outcome.version, outcome.reason) == (0, 1, "")
    folder = Path(str(outcome.weights))
    assert folder == tmp_path / "versions" / "000001"
    assert is_complete(folder)
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    assert loaded.dtype == torch.float32
    for name, weight in loaded.named_parameters():
        assert torch.equal(weight, lineage.trainer.policy.get_parameter(name))
    assert AutoTokenizer.from_pretrained(folder).encode("w7 w9") == [7, 9]
    assert checkpoint_digests(folder).keys() == checkpoint_digests(toy).keys()
    assert checkpoint_digests(folder) != checkpoint_digests(toy)
    assert recorded_digests(folder) == checkpoint_digests(folder)


@pytest.mark.fault("Replay and learner", "delivered twice, trained once")
def test_a_group_delivered_twice_is_trained_once_and_answered_alike(
    toy: Path, tmp_path: Path, groups: list[Path]
) -> None:
    lineage = begin(toy, tmp_path)
    first = lineage.train(groups[0])
    before = state(lineage)
    assert lineage.train(groups[0]) == first
    assert_same(before, state(lineage))
    second = lineage.train(groups[1])
    assert lineage.train(groups[0]) == first, "an older version that is still there is answered too"
    assert lineage.train(groups[1]) == second
    assert lineage.version == 2


def test_a_group_that_does_not_train_the_present_version_is_refused(
    toy: Path, tmp_path: Path, groups: list[Path]
) -> None:
    lineage = begin(toy, tmp_path)
    before = state(lineage)
    with pytest.raises(GroupRefused, match="group 2 trains version 1, but the learner is at 0"):
        lineage.train(groups[1])
    with pytest.raises(GroupRefused, match="gone"):
        lineage.train(tmp_path / "gone.safetensors")
    assert_same(before, state(lineage))


def test_a_discarded_step_makes_no_version_and_its_place_is_taken_by_the_next_group(
    toy: Path, tmp_path: Path, groups: list[Path]
) -> None:
    lineage = begin(toy, tmp_path)
    bad = random_group(seed=50, number=9, logprob=-1000.0)
    path = tmp_path / "bad.safetensors"
    write_group(path, bad)
    before = state(lineage)
    outcome = lineage.train(path)
    assert (outcome.version, outcome.weights) == (0, None)
    assert outcome.reason == "no token is left after the correction"
    assert outcome.metrics["broken_tokens"] == bad.tokens
    assert_same(before, state(lineage))
    assert numbers(tmp_path / "versions") == []
    assert lineage.train(groups[0]).version == 1


@pytest.mark.parametrize("every", [3, *(pytest.param(every, marks=pytest.mark.long) for every in (1, 100))])
def test_after_a_restart_replayed_weights_and_optimizer_equal_the_uninterrupted_ones_to_the_last_bit(
    toy: Path, tmp_path: Path, groups: list[Path], every: int
) -> None:
    settings = replace(SETTINGS, checkpoint_every=every)
    straight = begin(toy, tmp_path / "straight", (), settings)
    states: list[dict[str, Any]] = []
    for group in groups[:5]:
        straight.train(group)
        states.append(state(straight))
    broken = tmp_path / "broken"
    for version in range(5):
        replayed: list[int] = []
        lineage = Lineage(toy, broken, settings)
        lineage.start(groups[:version], replayed.append)
        assert lineage.version == version
        assert len(replayed) == version % every
        if version:
            assert_same(state(lineage), states[version - 1])
        lineage.train(groups[version])
        assert_same(state(lineage), states[version])
    for number in numbers(broken / "versions"):
        assert checkpoint_digests(broken / "versions" / f"{number:06d}") == checkpoint_digests(
            tmp_path / "straight" / "versions" / f"{number:06d}"
        )


@pytest.mark.fault("Replay and learner", "killed between checkpoint and row")
@pytest.mark.parametrize("every", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_version_whose_row_is_missing_is_answered_as_it_was_made(
    toy: Path, tmp_path: Path, groups: list[Path], every: int
) -> None:
    settings = replace(SETTINGS, checkpoint_every=every)
    lineage = begin(toy, tmp_path, (), settings)
    lineage.train(groups[0])
    unrecorded = lineage.train(groups[1])
    expected = state(lineage)
    restarted = begin(toy, tmp_path, groups[:1], settings)
    assert restarted.version == 1
    again = restarted.train(groups[1])
    assert (again.version, again.digest, again.weights) == (2, unrecorded.digest, unrecorded.weights)
    assert_same(state(restarted), expected)


def test_another_group_in_the_place_of_an_unrecorded_one_makes_its_own_version(
    toy: Path, tmp_path: Path, groups: list[Path]
) -> None:
    lineage = begin(toy, tmp_path)
    unrecorded = lineage.train(groups[0])
    other = tmp_path / "other.safetensors"
    write_group(other, random_group(seed=77, rollouts=4))
    outcome = begin(toy, tmp_path).train(other)
    assert outcome.version == 1
    assert outcome.digest != unrecorded.digest
    straight = begin(toy, tmp_path / "straight")
    expected = Path(str(straight.train(other).weights))
    assert checkpoint_digests(Path(str(outcome.weights))) == checkpoint_digests(expected)


def test_checkpoints_of_another_history_are_not_started_from(toy: Path, tmp_path: Path, groups: list[Path]) -> None:
    other = tmp_path / "other.safetensors"
    write_group(other, random_group(seed=77, rollouts=4))
    begin(toy, tmp_path / "one").train(other)
    lineage = begin(toy, tmp_path / "one", groups[:1])
    straight = begin(toy, tmp_path / "two")
    outcome = straight.train(groups[0])
    assert_same(state(lineage), state(straight))
    assert checkpoint_digests(tmp_path / "one" / "versions" / "000001") == checkpoint_digests(
        Path(str(outcome.weights))
    )


def test_a_long_run_keeps_the_newest_versions_and_checkpoints_only(
    toy: Path, tmp_path: Path, groups: list[Path]
) -> None:
    lineage = begin(toy, tmp_path, (), replace(SETTINGS, checkpoint_every=2))
    for group in groups:
        lineage.train(group)
    assert numbers(tmp_path / "versions") == [6, 7, 8]
    assert numbers(tmp_path / "checkpoints") == [6, 8]
    begin(toy, tmp_path, groups[:7])
    assert is_complete(tmp_path / "versions" / "000007")


def test_version_0_is_the_model_as_given(toy: Path, tmp_path: Path) -> None:
    assert Lineage(toy, tmp_path, SETTINGS).start([]) == toy


def test_a_history_with_a_damaged_group_that_must_be_replayed_is_refused_by_name(
    toy: Path, tmp_path: Path, groups: list[Path]
) -> None:
    damaged = tmp_path / "000001.safetensors"
    damaged.write_bytes(groups[0].read_bytes()[:-50])
    with pytest.raises(GroupRefused, match=r"000001\.safetensors is damaged"):
        begin(toy, tmp_path / "out", [damaged])


@pytest.mark.fault("Weights", "a directory half written")
def test_the_files_of_a_killed_writer_are_removed(toy: Path, tmp_path: Path, groups: list[Path]) -> None:
    for folder in ("versions", "checkpoints"):
        half = tmp_path / folder / ".000001.4242.tmp"
        half.mkdir(parents=True)
        (half / "model.safetensors").write_bytes(b"half")
        unmarked = tmp_path / folder / "000001"
        unmarked.mkdir()
        (unmarked / "model.safetensors").write_bytes(b"half")
    lineage = begin(toy, tmp_path)
    assert lineage.train(groups[0]).version == 1
    assert numbers(tmp_path / "checkpoints") == [1]
    assert begin(toy, tmp_path, groups[:1]).version == 1


def test_a_step_says_which_versions_will_be_rebuilt_again_and_those_suffice(
    toy: Path, tmp_path: Path, groups: list[Path]
) -> None:
    settings = replace(SETTINGS, checkpoint_every=2)
    lineage = begin(toy, tmp_path, (), settings)
    assert [lineage.train(group).oldest for group in groups[:7]] == [0, 0, 0, 2, 2, 4, 4]
    expected = state(lineage)
    after = 3  # the group that made version 4, the oldest checkpoint, is the first that is kept
    restarted = Lineage(toy, tmp_path, settings)
    replayed: list[int] = []
    restarted.start(groups[after:7], replayed.append, after=after)
    assert (restarted.version, replayed) == (7, [7])
    assert_same(state(restarted), expected)


def test_a_damaged_checkpoint_gives_way_to_the_one_before_it(toy: Path, tmp_path: Path, groups: list[Path]) -> None:
    settings = replace(SETTINGS, checkpoint_every=2)
    lineage = begin(toy, tmp_path, (), settings)
    for group in groups[:5]:
        lineage.train(group)
    expected = state(lineage)
    for file in ("model.safetensors", "optimizer.safetensors"):
        newest = tmp_path / "checkpoints" / "000004" / file
        newest.write_bytes(newest.read_bytes()[:-10])
    replayed: list[int] = []
    restarted = Lineage(toy, tmp_path, settings)
    restarted.start(groups[1:5], replayed.append, after=1)
    assert replayed == [3, 4, 5]
    assert_same(state(restarted), expected)
    for number in (2, 4):
        shutil.rmtree(tmp_path / "checkpoints" / f"{number:06d}", ignore_errors=True)
    with pytest.raises(GroupRefused, match="no checkpoint of version 1 or later is left"):
        Lineage(toy, tmp_path, settings).start(groups[1:5], after=1)


def flip(file: Path, place: int = -1) -> None:
    """Change one bit, as a disk does: neither size nor time tells."""
    stat, data = file.stat(), bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


CHECKPOINT = ("model.safetensors", "optimizer.safetensors", "config.json", "COMPLETE", "digests.json")


@pytest.mark.long
@pytest.mark.fault("Disk, everywhere", "a byte flipped in a checkpoint is noticed before it is trained on")
@pytest.mark.parametrize("file", CHECKPOINT)
def test_a_checkpoint_with_one_bit_flipped_is_not_trained_on(
    toy: Path, tmp_path: Path, groups: list[Path], file: str
) -> None:
    lineage = begin(toy, tmp_path)
    for group in groups[:3]:
        lineage.train(group)
    expected = state(lineage)
    flip(tmp_path / "checkpoints" / "000003" / file, 40)
    restarted, replayed = Lineage(toy, tmp_path, SETTINGS), list[int]()
    restarted.start(groups[:3], replayed.append)
    assert replayed == [3], "version 3 was rebuilt from the checkpoint before it"
    assert_same(state(restarted), expected)
    for number in numbers(tmp_path / "checkpoints"):
        flip(tmp_path / "checkpoints" / f"{number:06d}" / "optimizer.safetensors")
    with pytest.raises(GroupRefused, match="no checkpoint of version 2 or later is left"):
        Lineage(toy, tmp_path, SETTINGS).start(groups[2:3], after=2)


@pytest.mark.fault("Disk, everywhere", "a byte flipped in a checkpoint is noticed before it is trained on")
def test_a_checkpoint_ahead_of_the_record_with_one_bit_flipped_is_made_again(
    toy: Path, tmp_path: Path, groups: list[Path]
) -> None:
    lineage = begin(toy, tmp_path)
    lineage.train(groups[0])
    unrecorded = lineage.train(groups[1])
    expected = state(lineage)
    restarted = begin(toy, tmp_path, groups[:1])
    flip(tmp_path / "checkpoints" / "000002" / "model.safetensors")
    assert restarted.train(groups[1]).digest == unrecorded.digest
    assert_same(state(restarted), expected)


@pytest.mark.fault("Disk, everywhere", "a byte flipped in weights is noticed before they are served")
def test_weights_with_one_bit_flipped_are_written_again_before_they_are_served(
    toy: Path, tmp_path: Path, groups: list[Path]
) -> None:
    weights = Path(str(begin(toy, tmp_path).train(groups[0]).weights))
    digests = checkpoint_digests(weights)
    flip(weights / "model.safetensors")
    assert Lineage(toy, tmp_path, SETTINGS).start(groups[:1]) == weights
    assert checkpoint_digests(weights) == digests
    assert damage(weights) is None


def test_a_run_that_begins_with_a_version_and_its_optimizer_goes_on_as_the_one_that_made_it(
    toy: Path, tmp_path: Path, groups: list[Path]
) -> None:
    made = begin(toy, tmp_path / "before")
    for group in groups[:2]:
        made.train(group)
    given, cold, warm = tmp_path / "before" / "versions" / "000002", tmp_path / "cold", tmp_path / "warm"
    given_optimizer(warm).mkdir(parents=True)
    shutil.copy(tmp_path / "before" / "checkpoints" / "000002" / OPTIMIZER, given_optimizer(warm))
    for update, path in ((2, tmp_path / "next"), (0, tmp_path / "first")):
        write_group(path, random_group(seed=5, update=update, number=update + 1, rollouts=4, max_age=0))
    made.train(tmp_path / "next")
    for out, same in ((warm, True), (cold, False)):
        later = begin(given, out)
        later.train(tmp_path / "first")
        assert all(torch.equal(tensor, state(later)[name]) for name, tensor in state(made).items()) is same
    assert_same(state(begin(given, warm, [tmp_path / "first"])), state(made))
