"""Versions are written in the number type that the engine serves. Checkpoints stay exact."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import safetensors.torch
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pace_async.configure import resolve
from pace_async.learn.lineage import Lineage
from pace_async.learn.send import Source
from pace_async.learn.served_type import served_type, stored_names
from pace_async.learn.settings import TrainerConfig
from pace_async.transfer import Transfer
from pace_async.weights import checkpoint_digests, contents, recorded_digests
from tests.support.chat_models import SWITCHED, VOCABULARY, qwen3, qwen3_5, save_chat_model
from tests.support.learn_toys import written_groups

_files = cast("Any", safetensors.torch)
SETTINGS = TrainerConfig(learning_rate=1e-4, micro_tokens=400, served_type=True)


def loaded(file: Path) -> dict[str, torch.Tensor]:
    return _files.load_file(file)


def half_model(folder: Path, made: Any, prefix: str = "model.") -> Path:
    """The model in bfloat16, as published ones are: one kind of tensor stays in float32, and the text part's names in
    the file begin with `prefix`."""
    save_chat_model(folder, SWITCHED, model=made.to(torch.bfloat16))
    file = folder / "model.safetensors"
    named = {name.replace("model.", prefix, 1): tensor for name, tensor in loaded(file).items()}
    wide = {name: tensor.float() if "A_log" in name else tensor for name, tensor in named.items()}
    _files.save_file(wide, file, metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="session")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return half_model(tmp_path_factory.mktemp("tied") / "model", qwen3(0))


@pytest.fixture(scope="session")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return half_model(tmp_path_factory.mktemp("renamed") / "model", qwen3_5(0), "model.language_model.")


@pytest.fixture(scope="session")
def groups(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return written_groups(tmp_path_factory.mktemp("groups"), 2, vocab=VOCABULARY)


def trained(given: Path, out: Path, groups: list[Path], settings: TrainerConfig = SETTINGS) -> tuple[Lineage, Path]:
    lineage = Lineage(given, out, settings)
    lineage.start([])
    for group in groups:
        outcome = lineage.train(group)
        assert outcome.reason == ""
    return lineage, out / "versions" / f"{len(groups):06d}"


def in_file(folder: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {tensor.name: (tensor.dtype, tensor.shape) for tensor in contents(folder)}


@pytest.mark.parametrize("model", ["tied", "renamed"])
def test_a_version_has_the_names_types_and_shapes_of_version_0_and_proven_digests(
    model: str, request: pytest.FixtureRequest, tmp_path: Path, groups: list[Path]
) -> None:
    given: Path = request.getfixturevalue(model)
    lineage, version = trained(given, tmp_path, groups[:1])
    assert in_file(version) == in_file(given)
    assert recorded_digests(version) == checkpoint_digests(version)
    assert checkpoint_digests(version) != checkpoint_digests(given)
    config = json.loads((version / "config.json").read_text())
    assert (config["dtype"], served_type(version)) == ("bfloat16", torch.bfloat16)
    memory = stored_names(lineage.trainer.policy, lineage.trainer.policy.state_dict())
    for name, tensor in loaded(version / "model.safetensors").items():
        assert torch.equal(tensor, memory[name].to(tensor.dtype)), name
    assert AutoModelForCausalLM.from_pretrained(version).dtype == torch.bfloat16
    assert AutoTokenizer.from_pretrained(version).chat_template


def test_what_is_sent_from_memory_is_what_was_written_under_the_names_of_the_files(
    renamed: Path, tmp_path: Path, groups: list[Path]
) -> None:
    lineage, version = trained(renamed, tmp_path, groups[:1])
    written = loaded(version / "model.safetensors")
    transfer = Transfer(
        port=1,
        seconds=1.0,
        names=list(written),
        dtypes=[str(tensor.dtype).removeprefix("torch.") for tensor in written.values()],
        shapes=[list(tensor.shape) for tensor in written.values()],
    )
    policy = lineage.trainer.policy
    sent = dict(Source(stored_names(policy, policy.state_dict()), transfer))
    assert sent.keys() == written.keys()
    assert all(torch.equal(tensor, written[name]) for name, tensor in sent.items())


def test_rounded_versions_change_neither_training_nor_checkpoints(
    tied: Path, tmp_path: Path, groups: list[Path]
) -> None:
    rounded, _ = trained(tied, tmp_path / "rounded", groups)
    exact, _ = trained(tied, tmp_path / "exact", groups, replace(SETTINGS, served_type=False))
    assert {kind for kind, _ in in_file(tmp_path / "exact" / "versions" / "000002").values()} == {"F32"}
    one, other = (tmp_path / name / "checkpoints" / "000002" for name in ("rounded", "exact"))
    assert {kind for kind, _ in in_file(one).values()} == {"F32"}
    assert checkpoint_digests(one) == checkpoint_digests(other)
    restarted = Lineage(tied, tmp_path / "rounded", SETTINGS)
    restarted.start(groups)
    for lineage in (rounded, restarted):
        for name, weight in lineage.trainer.policy.named_parameters():
            assert torch.equal(weight, exact.trainer.policy.get_parameter(name)), name


def test_adapters_are_written_in_the_type_of_their_base(tied: Path, tmp_path: Path, groups: list[Path]) -> None:
    settings = replace(SETTINGS, lora_rank=2, learning_rate=1e-2)
    lineage, version = trained(tied, tmp_path, groups[:1], settings)
    assert {kind for kind, _ in in_file(version).values()} == {"BF16"}
    assert {kind for kind, _ in in_file(tmp_path / "checkpoints" / "000001").values()} == {"F32"}
    memory = dict(lineage.trainer.policy.named_parameters())
    for name, tensor in loaded(version / "adapter_model.safetensors").items():
        own = memory[name.replace(".weight", ".default.weight")]
        assert torch.equal(tensor, own.detach().to(torch.bfloat16)), name


def test_a_weight_that_rounding_makes_infinite_is_not_written(tmp_path: Path, groups: list[Path]) -> None:
    model: Any = qwen3(0)
    model.config.dtype = torch.float16
    given = save_chat_model(tmp_path / "model", SWITCHED, model=model.to(torch.float16))
    lineage = Lineage(given, tmp_path / "out", SETTINGS)
    lineage.start([])
    with torch.no_grad():
        next(lineage.trainer.policy.parameters()).fill_(1e6)
    with pytest.raises(ValueError, match="is not finite and is not written"):
        lineage.train(groups[0])
    assert not list((tmp_path / "out" / "versions").iterdir())


@pytest.mark.parametrize(
    ("settings", "served"),
    [
        ({"advisor.engine": "vllm"}, True),
        ({"advisor.engine": "embedded"}, False),
        ({"advisor.engine": "http://127.0.0.1:1"}, False),
        ({"advisor.engine": "vllm", "advisor.engine_arguments": ["--dtype=float32"]}, False),
    ],
)
def test_only_an_engine_that_serves_the_type_of_the_files_gets_versions_in_it(
    settings: dict[str, object], served: bool
) -> None:
    assert TrainerConfig.of(resolve(None, settings, environment={})).served_type is served
