"""What a rebuild needs on the disk: the checkpoint of a history, or the given model, and every group after it."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from pace_async.learn.rebuild import SAVED, StepRecord, checkpoints_of, lost_group, made_in
from pace_async.replay.groupfile import group_path, write_group
from pace_async.weights import COMPLETE
from tests.support.learn_toys import random_group


def checkpoint(out: Path, version: int, digest: str) -> Path:
    folder = checkpoints_of(out) / f"{version:06d}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / COMPLETE).write_text(json.dumps(asdict(StepRecord(version, digest, {}, 0.5))))
    return folder


@pytest.fixture
def groups(tmp_path: Path) -> list[tuple[Path, str]]:
    """Of three versions, with the numbers 2, 4 and 6."""
    paths = [group_path(tmp_path, 2 * version) for version in (1, 2, 3)]
    return [(path, write_group(path, random_group(vocab=9, seed=n, update=n))) for n, path in enumerate(paths)]


def test_all_groups_rebuild_a_version_from_the_given_model(tmp_path: Path, groups: list[tuple[Path, str]]) -> None:
    assert lost_group(tmp_path, []) is None
    assert lost_group(tmp_path, groups) is None
    groups[1][0].unlink()
    assert lost_group(tmp_path, groups) == (2, groups[1][0])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_checkpoint_stands_for_every_group_up_to_it(
    tmp_path: Path, groups: list[tuple[Path, str]], version: int
) -> None:
    for path, _ in groups[:version]:
        path.unlink()
    assert lost_group(tmp_path, groups) == (version, groups[version - 1][0])
    folder = checkpoint(tmp_path, version, groups[version - 1][1])
    assert lost_group(tmp_path, groups) is None
    (folder / COMPLETE).write_text("{")
    assert lost_group(tmp_path, groups) == (version, groups[version - 1][0])


@pytest.mark.parametrize("damaged", ["", "[]", "{}", '{"digest": "of another group"}'])
def test_a_version_at_a_service_needs_no_group(tmp_path: Path, groups: list[tuple[Path, str]], damaged: str) -> None:
    for path, _ in groups:
        path.unlink()
    file = tmp_path / "versions" / "000003" / SAVED
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"digest": groups[2][1]}))
    assert lost_group(tmp_path, groups) is None
    file.write_text(damaged)
    assert lost_group(tmp_path, groups) == (3, groups[2][0])


def test_neither_a_checkpoint_nor_a_group_of_another_history_counts(
    tmp_path: Path, groups: list[tuple[Path, str]]
) -> None:
    path, digest = groups[-1]
    other = write_group(path, random_group(vocab=9, seed=7, update=2))
    checkpoint(tmp_path, 3, other)
    checkpoint(tmp_path, 4, digest)
    assert lost_group(tmp_path, groups) == (3, path)
    path.write_bytes(path.read_bytes()[:100])
    assert lost_group(tmp_path, groups) == (3, path)


def test_a_record_is_read_back_and_a_folder_without_one_has_none(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 7, "of group 7")
    assert made_in(folder) == StepRecord(7, "of group 7", {}, 0.5)
    (folder / COMPLETE).write_text('{"version": 7}')
    with pytest.raises(ValueError, match="COMPLETE is damaged"):
        made_in(folder)
    (folder / COMPLETE).unlink()
    assert made_in(folder) is None
    assert made_in(tmp_path) is None
