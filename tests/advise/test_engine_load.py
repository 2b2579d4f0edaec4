"""Loading is all or nothing, and the receipt says what stands in the model."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from pace_async.advise.engines.embedded import load_model
from pace_async.advise.engines.load import BadCheckpoint, load_checkpoint, receipt
from pace_async.weights import checkpoint_digests, record_digests
from tests.support.engine_models import save_tiny_model, tiny_model
from tests.support.tensor_files import load_file, save_file

FILE = "model.safetensors"


def copy_with(source: Path, target: Path, tensors: Mapping[str, torch.Tensor | None]) -> Path:
    """`source`'s weights with some tensors put in, or taken out where None."""
    merged = {**load_file(source / FILE), **tensors}
    target.mkdir()
    save_file({name: tensor for name, tensor in merged.items() if tensor is not None}, target / FILE)
    return target


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_the_receipt_of_a_load_is_the_checkpoints_own_digests(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "new", seed=1)
    model = tiny_model(seed=0).requires_grad_(False)
    digests = receipt(model, load_checkpoint(model, folder))
    assert digests == checkpoint_digests(folder)
    assert digests.keys() == model.state_dict().keys()


def test_one_changed_weight_changes_the_receipt(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "new", seed=1)
    model = tiny_model(seed=0).requires_grad_(False)
    types = load_checkpoint(model, folder)
    model.model.norm.weight[3] += 1e-6
    digests, sent = receipt(model, types), checkpoint_digests(folder)
    assert {name for name in sent if digests[name] != sent[name]} == {"model.norm.weight"}


def test_a_half_precision_checkpoint_is_served_in_full_precision_and_proven(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "new", seed=1)
    half = {name: tensor.bfloat16() for name, tensor in load_file(folder / FILE).items()}
    folder = copy_with(folder, tmp_path / "half", half)
    model = tiny_model(seed=0).requires_grad_(False)
    assert receipt(model, load_checkpoint(model, folder)) == checkpoint_digests(folder)
    assert model.lm_head.weight.dtype == torch.float32
    assert torch.equal(model.lm_head.weight, half["lm_head.weight"].float())


def test_a_number_that_float32_cannot_hold_shows_in_the_receipt(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "new", seed=1)
    folder = copy_with(
        folder, tmp_path / "double", {"model.norm.weight": torch.full((64,), 1 / 3, dtype=torch.float64)}
    )
    model = tiny_model(seed=0).requires_grad_(False)
    assert receipt(model, load_checkpoint(model, folder)) != checkpoint_digests(folder)


def test_a_tied_head_may_be_in_the_checkpoint_or_not(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "tied", seed=1, tied=True)
    embedding = load_file(folder / FILE)["model.embed_tokens.weight"]
    assert "lm_head.weight" not in load_file(folder / FILE)
    with_head = copy_with(folder, tmp_path / "with_head", {"lm_head.weight": embedding.clone()})
    only_head = copy_with(with_head, tmp_path / "only_head", {"model.embed_tokens.weight": None})
    for checkpoint in (folder, with_head, only_head):
        model = tiny_model(seed=0, tied=True).requires_grad_(False)
        assert receipt(model, load_checkpoint(model, checkpoint)) == checkpoint_digests(checkpoint)
        assert torch.equal(model.model.embed_tokens.weight, embedding)
        assert torch.equal(model.lm_head.weight, embedding)


@pytest.mark.parametrize(
    ("tied", "changes", "reason"),
    [
        (False, {"model.norm.weight": None}, "model.norm.weight"),
        (False, {"model.layers.7.mlp.up_proj.weight": torch.ones(2)}, "no tensor model.layers.7"),
        (False, {"model.norm.weight": torch.ones(63)}, "shape"),
        (False, {"model.norm.weight": torch.full((64,), float("nan"))}, "not finite"),
        (False, {"model.norm.weight": torch.full((64,), float("-inf"))}, "not finite"),
        (False, {"model.norm.weight": torch.ones(64, dtype=torch.int32)}, "type"),
        (True, {"lm_head.weight": torch.ones(300, 64)}, "one tensor in the model"),
        (True, {"model.embed_tokens.weight": None}, "missing"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_and_the_model_untouched(
    tmp_path: Path, tied: bool, changes: dict[str, torch.Tensor | None], reason: str
) -> None:
    folder = copy_with(save_tiny_model(tmp_path / "new", seed=1, tied=tied), tmp_path / "bad", changes)
    model = tiny_model(seed=0, tied=tied).requires_grad_(False)
    before = state(model)
    with pytest.raises(BadCheckpoint, match=reason):
        load_checkpoint(model, folder)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_file_cut_short_or_absent_is_refused(tmp_path: Path) -> None:
    model = tiny_model(seed=0)
    with pytest.raises(BadCheckpoint, match="no safetensors"):
        load_checkpoint(model, tmp_path)
    whole = (save_tiny_model(tmp_path / "new", seed=1) / FILE).read_bytes()
    for length in (0, 5, 200, len(whole) - 1):
        (tmp_path / FILE).write_bytes(whole[:length])
        with pytest.raises(BadCheckpoint, match="cannot be read"):
            load_checkpoint(model, tmp_path)
        with pytest.raises(ValueError):
            checkpoint_digests(tmp_path)


@pytest.mark.fault("Disk, everywhere", "a byte flipped in weights is noticed before they are served")
def test_an_engine_does_not_start_with_weights_that_a_disk_has_changed(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "weights", seed=1)
    record_digests(folder)
    whole = (folder / FILE).read_bytes()
    assert load_model(folder, "cpu") is not None
    (folder / FILE).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(BadCheckpoint, match=r"is damaged: .* is not what was written"):
        load_model(folder, "cpu")
