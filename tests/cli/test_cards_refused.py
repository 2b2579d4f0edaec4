"""A driver that is too old and a model that vLLM does not know are refused before anything is written."""

import json
from pathlib import Path

import pytest

from pace_async.advise.engines import vllm_models
from scripts.benchmarks.toys import write_llama
from tests.support.command_line import Shell
from tests.support.stand_in_machine import (
    fits_never,
    head_of,
    install_nvidia_smi,
    install_torch,
    install_vllm,
    show_card,
)

REGISTRY = '_VLLM_MODELS = {"Qwen3ForCausalLM": ("qwen3", "Qwen3ForCausalLM")}\n'
COMMANDS = (
    ("run", "circle_packing", "--dry-run", "--config"),
    ("run", "circle_packing", "--config"),
    ("plan",),
    ("plan", "--config"),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=64, width=32, layers=2)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A machine with one card, CUDA builds of torch and vLLM, and the driver of CUDA 13."""
    machine = tmp_path / "machine"
    install_torch(machine / "torch", monkeypatch, "cuda: Optional[str] = '13.0'")
    install_vllm(machine / "vllm", monkeypatch, REGISTRY)
    install_nvidia_smi(machine / "bin", monkeypatch, head_of("580.65.06", "13.0"))
    show_card(machine / "dev", monkeypatch)
    monkeypatch.setattr(vllm_models, "fits_generic_model", fits_never)
    folder = tmp_path / "work"
    folder.mkdir()
    return Shell(folder, monkeypatch, capsys)


@pytest.fixture
def old_driver(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    install_nvidia_smi(shell.folder.parent / "machine" / "old", monkeypatch, head_of("535.104.05", "12.2"))


def written(shell: Shell, model: Path, engine: str) -> str:
    file = shell.folder / "mine.yaml"
    file.write_text(json.dumps({"advisor": {"model": str(model), "engine": engine, "kv_cache_gib": 1}}))
    return str(file)


@pytest.mark.usefixtures("old_driver")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("engine", ["embedded", "vllm"])
def test_a_driver_that_is_too_old_is_refused(shell: Shell, model: Path, command: tuple[str, ...], engine: str) -> None:
    said = shell.pace(*command, written(shell, model, engine))
    hidden = ", or set CUDA_VISIBLE_DEVICES to nothing, to compute on the processor" if engine == "embedded" else ""
    assert said.err == (
        "pace: No card can be used: the NVIDIA driver 535.104.05 serves CUDA 12.2, and torch 2.13.0 is built for CUDA "
        f"13.0; install driver 580 or a later one{hidden}.\n"
    )
    assert (said.code, shell.files()) == (2, ["mine.yaml"])


@pytest.mark.usefixtures("old_driver")
def test_an_advisor_of_the_package_computes_on_the_processor_beside_an_old_driver(shell: Shell) -> None:
    run = ("run", "circle_packing", "--advisor", "tiny", "--dry-run")
    assert shell.pace(*run).code == 0
    assert "No card can be used" in shell.pace(*run, "--engine", "vllm").err
    said = shell.pace("doctor")
    assert said.code == 1
    assert "but the NVIDIA driver 535.104.05 serves CUDA 12.2" in " ".join(said.out.split())


@pytest.mark.usefixtures("old_driver")
def test_hidden_cards_need_no_driver(shell: Shell, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    said = shell.pace("run", "circle_packing", "--config", written(shell, model, "embedded"), "--dry-run")
    assert said.code == 0, said.err


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.usefixtures("old_driver")
def test_a_run_that_has_no_card_itself_needs_no_driver(shell: Shell, model: Path) -> None:
    config = written(shell, model, "http://127.0.0.1:9")
    said = shell.pace("run", "circle_packing", "--config", config, "--objective", "none", "--dry-run")
    assert said.code == 0, said.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_model_that_vllm_does_not_know_is_refused(shell: Shell, model: Path, command: tuple[str, ...]) -> None:
    said = shell.pace(*command, written(shell, model, "vllm"))
    assert said.err == (
        f"pace: --advisor {model}: vLLM 0.32.0 does not know LlamaForCausalLM, the architecture in its config.json; "
        "give a model that it knows, or another --engine.\n"
    )
    assert (said.code, shell.files()) == (2, ["mine.yaml"])


def test_a_plan_for_named_cards_refuses_it_too_and_needs_no_driver(
    shell: Shell, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    said = shell.pace("plan", written(shell, model, "vllm"), "--card", "80")
    assert said.code == 2
    assert "does not know LlamaForCausalLM" in said.err
