"""pace plan, and the refusal of a run that cannot fit."""

import json
import os
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from pace_async import gpus
from pace_async.config import Config
from pace_async.plan import counted as counting
from pace_async.plan import planned
from pace_async.plan.step import StepBytes, StepShape
from pace_async.runtime.children.advisor_folder import TINY, refuse_unless_transformers_knows
from scripts.benchmarks.toys import write_llama
from tests.support.command_line import Shell
from tests.support.given_steps import count_steps_by, given

pytestmark = pytest.mark.timeout(600)  # a child process imports torch, which takes minutes beside heavy load

SHAPES = Path(__file__).parents[2] / "scripts" / "documentation" / "shapes" / "models"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only what a plan needs of a model: no weights."""
    folder = write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=64, width=32, layers=2)
    for file in folder.glob("*.safetensors"):
        file.unlink()
    return folder


@pytest.fixture(scope="module")
def once() -> Callable[[StepShape], StepBytes]:
    return cache(counting.count_step)


@pytest.fixture(autouse=True)
def steps(
    request: pytest.FixtureRequest, once: Callable[[StepShape], StepBytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long tests count steps, and others are given one."""
    count_steps_by(monkeypatch, once if request.node.get_closest_marker("long") is not None else given)


def config(folder: Path, model: Path, **advisor: object) -> str:
    file = folder / "mine.yaml"
    given = {"advisor": {"model": str(model), "engine": "vllm", "kv_cache_gib": 1, **advisor}}
    file.write_text(json.dumps(given))
    return str(file)


@pytest.mark.long
def test_a_plan_names_every_part_and_says_that_it_fits(shell: Shell, model: Path) -> None:
    said = shell.pace("plan", config(shell.folder, model), "--card", "79.2")
    assert said.code == 0, said.err
    assert "card 0 of 79.2 GiB" in said.out
    for part in ("gradient, float32", "AdamW's moments, float32", "keys and values", "3 checkpoints"):
        assert part in said.out
    assert said.out.splitlines()[-1] == "The cards hold it. Not known here: host memory and disk."
    assert shell.files() == ["mine.yaml"]


@pytest.mark.long
@pytest.mark.nightly
def test_what_does_not_fit_has_exit_code_1_and_a_setting_that_would(shell: Shell, model: Path) -> None:
    said = shell.pace("plan", config(shell.folder, model, kv_cache_gib=None), "--card", "6.5")
    assert said.code == 1
    last = said.out.splitlines()[-1]
    assert last.startswith("The run does not fit: card 0 has 6.5 GiB, and the run needs 7.1")
    assert last.endswith("It fits with advisor.kv_cache_gib=1.")
    said = shell.pace("plan", config(shell.folder, model, kv_cache_gib=4), "--card", "1", "--json")
    told = json.loads(said.out)
    assert (said.code, told["fits"], told["remedy"]) == (1, False, None)
    assert sum(part["size"] for part in told["places"][0]["parts"]) == told["places"][0]["needed_bytes"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (("--set", "advisor.model=bandit", "--set", "advisor.engine=embedded"), "there is nothing to plan"),
        (("--set", "advisor.model=nowhere"), "is not a model directory"),
        (
            ("--set", "task=eplb", "--set", "evaluation.settings.layer=2"),
            "has no setting 'layer': did you mean 'layers'?",
        ),
        (("--set", "learner.gpus=[1]"), "learner.gpus names card 1, and 1 can be seen"),
        (("--set", "advisor.max_tokens=5000"), "there is no room for a question"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_sentence(
    shell: Shell, model: Path, changes: tuple[str, ...], sentence: str
) -> None:
    said = shell.pace("plan", config(shell.folder, model), "--card", "80", *changes)
    assert said.code == 2
    assert sentence in said.err
    assert said.err.count("\n") == 1


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in: the device file of a card, and an nvidia-smi that reports 80 GiB, of which others use 79."""
    devices, programs = tmp_path / "dev", tmp_path / "bin"
    devices.mkdir()
    programs.mkdir()
    (devices / "nvidia0").touch()
    program = programs / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho '0, GPU-5a00, {80 * 1024}, {79 * 1024}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(gpus, "DEVICES", devices)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("more", [("--dry-run",), ()])
def test_a_run_that_cannot_fit_is_refused_before_anything_is_written(
    shell: Shell, model: Path, more: tuple[str, ...]
) -> None:
    before = shell.files()
    said = shell.pace("run", "circle_packing", "--advisor", str(model), *more)
    assert said.code == 2
    assert "The run does not fit: card 0 has 80.0 GiB, of which others use 79.0, and the run needs" in said.err
    assert said.err.endswith("`pace plan` prints every part.\n")
    assert shell.files() == before


def test_a_folder_without_a_tokenizer_is_refused_before_anything_is_written_and_named_by_a_dry_run(
    shell: Shell, tmp_path: Path, model: Path
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_bytes((model / "config.json").read_bytes())
    before = shell.files()
    lacks = f"--advisor {bare} has no tokenizer (tokenizer.json or tokenizer.model)"
    said = shell.pace("run", "circle_packing", "--advisor", str(bare))
    assert said.code == 2
    assert lacks in said.err
    assert said.err.count("\n") == 1
    planned_run = shell.pace("run", "circle_packing", "--advisor", str(bare), "--dry-run")
    assert (planned_run.code, planned_run.err) == (0, "")
    assert re.search(rf"^missing 1 +{re.escape(lacks)}", planned_run.out, re.MULTILINE)
    assert shell.files() == before


def test_a_folder_without_weights_is_refused_before_anything_is_written(shell: Shell, model: Path) -> None:
    before = shell.files()
    said = shell.pace("run", "circle_packing", "--advisor", str(model))
    assert said.code == 2
    assert said.err == (
        f"pace: --advisor {model} has no weights (*.safetensors): put the model's own beside its config.json.\n"
    )
    assert shell.files() == before


@pytest.mark.parametrize("more", [("--dry-run",), ()])
@pytest.mark.parametrize(
    ("index", "others", "said"),
    [
        (None, ["pytorch_model.bin"], "lacks weights (*.safetensors): put the model's own beside its config.json."),
        ("shard.safetensors", [], "lacks shard.safetensors: put the model's own beside its config.json."),
        ("../shard.safetensors", [], "lacks a whole model.safetensors.index.json: put the model's own"),
        ("shard.safetensors", ["shard.safetensors", "model.safetensors"], "has model.safetensors beside the shards"),
    ],
)
def test_weights_that_neither_engine_nor_learner_could_load_are_refused_before_anything_is_written(
    shell: Shell, tmp_path: Path, model: Path, index: str | None, others: list[str], said: str, more: tuple[str, ...]
) -> None:
    own = tmp_path / "own"
    shutil.copytree(model, own)
    if index is not None:
        (own / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": index}}))
    for name in others:
        (own / name).touch()
    before = shell.files()
    answer = shell.pace("run", "circle_packing", "--advisor", str(own), *more)
    assert answer.code == 2
    assert said in answer.err
    assert answer.err.count("\n") == 1
    assert shell.files() == before


@pytest.mark.parametrize("more", [("--dry-run",), ()])
def test_a_model_of_a_type_that_transformers_does_not_have_is_refused_before_anything_is_written(
    shell: Shell, tmp_path: Path, model: Path, more: tuple[str, ...]
) -> None:
    own = tmp_path / "own"
    shutil.copytree(model, own)
    given = json.loads((model / "config.json").read_text())
    code = {"AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}
    (own / "config.json").write_text(json.dumps({**given, "model_type": "own_type", "auto_map": code}))
    before = shell.files()
    said = shell.pace("run", "circle_packing", "--advisor", str(own), *more)
    assert said.code == 2
    assert f"--advisor {own} is a model of the type own_type, which transformers" in said.err
    assert said.err.endswith("and code of the model's own folder (auto_map) is not run: give another model.\n")
    assert said.err.count("\n") == 1
    assert shell.files() == before


def test_every_type_of_the_ready_models_is_one_that_transformers_has() -> None:
    folders = [*(file.parent for file in SHAPES.glob("*/config.json")), TINY]
    assert len(folders) > 2
    for folder in folders:
        refuse_unless_transformers_knows(Config.model_validate({"advisor": {"model": str(folder)}}))  # raises nothing


@pytest.mark.usefixtures("card")
def test_a_step_that_cannot_be_counted_refuses_no_run(
    shell: Shell, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> StepBytes:
        raise counting.NotCounted("The memory of it could not be counted.")

    monkeypatch.setattr(planned.plan_of, "__defaults__", (fails,))
    said = shell.pace("run", "circle_packing", "--advisor", str(model), "--dry-run")
    assert said.code == 0, said.err


@pytest.mark.usefixtures("card")
def test_an_advisor_of_the_package_is_not_planned(shell: Shell) -> None:
    said = shell.pace("run", "circle_packing", "--advisor", "tiny", "--dry-run")
    assert said.code == 0, said.err
